// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QLineEdit>
#include <QSplitter>
#include <QTabWidget>

#include "ui/cluster/cluster_inspector.h"
#include "ui/cluster/cluster_map.h"
#include "ui/widgets/view.h"
#include "ui/widgets/data_table.h"

namespace planloom::ui {

/// The cluster as a map and as tables of devices and of links, with the figures of the selection below.
class ClusterView final : public View {
    Q_OBJECT

public:
    explicit ClusterView(StudioState *state, QWidget *parent = nullptr);
    [[nodiscard]] QString title() const override { return tr("Cluster"); }
    [[nodiscard]] QList<QAction *> commands() const override { return m_commands; }
    [[nodiscard]] QWidget *focusTarget() override { return m_tabs->currentWidget(); }

protected:
    void resizeEvent(QResizeEvent *event) override;

private:
    void build();
    void makeCommands();
    void refreshCluster();
    void refreshStages();
    void refreshTable();
    void showSelection();
    void pickLink(int link);
    void askForSettings(const QString &source, const std::vector<import::ClusterSettingInfo> &settings);
    [[nodiscard]] std::vector<std::vector<int>> stagesOfDevices() const;
    [[nodiscard]] TableData devices() const;
    [[nodiscard]] TableData links() const;

    QLabel *m_summary;
    QSplitter *m_splitter;
    QTabWidget *m_tabs;
    QLineEdit *m_search;
    ClusterMap *m_map;
    DataTable *m_devices;
    DataTable *m_links;
    ClusterInspector *m_inspector;
    QList<QAction *> m_commands;
    int m_link = -1; ///< picked; -1: none
};

} // namespace planloom::ui
