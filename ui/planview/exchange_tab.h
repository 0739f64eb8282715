// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QCheckBox>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QScrollArea>
#include <QSpinBox>

#include "ui/planview/averaging_panel.h"
#include "ui/planview/table_panel.h"
#include "ui/state/studio_state.h"
#include "ui/widgets/when_seen.h"

#include <functional>
#include <vector>

namespace planloom::ui {

/// The exchange between replicas as knobs: its kind, rounds and delay of averages, the order of communication and the
/// strategy of each table, and the speed of the network. Each turn is one undoable edit of the state, which simulates
/// the plan again; after a refused one the old figure is shown again. Beside the knobs, or below them where the tab is
/// narrow, stands what other settings would cost.
class ExchangeTab final : public QScrollArea {
    Q_OBJECT

public:
    explicit ExchangeTab(StudioState *state, QWidget *parent = nullptr);
    [[nodiscard]] TablePanel *tables() { return m_tablePanel; }
    [[nodiscard]] AveragingPanel *averages() { return m_averagingPanel; }
    [[nodiscard]] QLabel *warnings() { return m_warnings; }

protected:
    void resizeEvent(QResizeEvent *event) override;

private:
    void build();
    QWidget *buildPage(QWidget *knobs);
    void connectPanels();
    void connectKnobs();
    void refresh();
    void refreshTables(const plan::Document &document);
    void addTable(const std::string &name, const plan::SparseTable *given);
    void setTable(const std::string &name, plan::TableStrategy strategy, bool split);
    void setKind(plan::ExchangePolicy kind);
    void setDelay(std::int64_t delay);
    void setRounds(std::int64_t localSteps, std::int64_t delay);
    void refreshWarnings(const plan::Document &document);
    void scaleNetwork(double factor);
    void edit(const QString &what, const std::function<void(plan::Plan &)> &change);

    StudioState *m_state;
    QFormLayout *m_form;
    QBoxLayout *m_page = nullptr;
    TablePanel *m_tablePanel;
    AveragingPanel *m_averagingPanel;
    QComboBox *m_kind;
    QCheckBox *m_acrossSteps;
    QComboBox *m_dense;
    QSpinBox *m_localSteps;
    QSpinBox *m_delay;
    QDoubleSpinBox *m_localWeight;
    QComboBox *m_merge;
    QSpinBox *m_warmup;
    QComboBox *m_inside;
    QComboBox *m_scheduling;
    QComboBox *m_network;
    QLabel *m_warnings;
    std::vector<QWidget *> m_tables; ///< rows of the form, anew for each document
    bool m_refreshing = false;
};

} // namespace planloom::ui
