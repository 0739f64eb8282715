// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QLineEdit>
#include <QSplitter>
#include <QTabWidget>

#include "ui/cluster/cluster_editor.h"
#include "ui/cluster/cluster_inspector.h"
#include "ui/cluster/cluster_map.h"
#include "ui/cluster/cluster_matrix.h"
#include "ui/widgets/view.h"
#include "ui/widgets/data_table.h"

#include <array>

namespace planloom::ui {

/// The cluster as a map, as tables of devices and of links and as a matrix of the ways between devices, with the
/// figures of the selection below; and the commands that change it (cluster_editor.h).
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
    [[nodiscard]] QWidget *makeTop();
    [[nodiscard]] QWidget *makeMatrixTab();
    void connectEditor();
    void makeCommands();
    void refreshCluster();
    void refreshStages();
    void refreshTable();
    void showSelection();
    void pickLink(int link);
    void pick(const ClusterPart &part);
    [[nodiscard]] ClusterPart part() const; ///< what is picked, here or in the state
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
    ClusterMatrix *m_matrix;
    QWidget *m_matrixTab = nullptr;
    ClusterInspector *m_inspector;
    ClusterEditor *m_editor;
    QList<QAction *> m_commands;
    int m_link = -1;                     ///< picked; -1: none
    ClusterPart m_part;                  ///< a picked node or vertex; else None
    std::array<std::size_t, 3> m_size{}; ///< nodes, vertices and links of the cluster that is shown
};

} // namespace planloom::ui
