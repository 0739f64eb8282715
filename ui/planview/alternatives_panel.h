// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QSplitter>
#include <QWidget>

#include "ui/planview/alternative_figures.h"
#include "ui/planview/pareto_plot.h"
#include "ui/state/latest_job.h"
#include "ui/state/studio_state.h"
#include "ui/widgets/data_table.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace planloom::ui {

/// Columns of the table of alternatives.
enum class AlternativeColumn {
    Kept,
    Plan,
    Step,
    Peak,
    Bubble,
    Sent,
    Planner,
    Compared,
    Differs,
    Stages,
    Schedule,
    MicroBatches
};

/// One row: a plan that was kept, or an alternative of the newest search.
struct AlternativeRow {
    planners::Candidate candidate;
    std::optional<std::size_t> kept; ///< its number among StudioState::keptPlans()
};

/// The kept plans, then the alternatives that are none of these. Cost: that of plan::simulationKey for each.
std::vector<AlternativeRow> alternativeRows(const StudioState &state);

/// The plans that the planner found besides the open one, and those that were kept, as a table and as points of time
/// against memory. Figures that a planner did not give are simulated beside the UI thread.
class AlternativesPanel final : public QWidget {
    Q_OBJECT

public:
    explicit AlternativesPanel(StudioState *state, QWidget *parent = nullptr);
    void refresh(); ///< the owner calls it when the panel is seen and something has changed
    [[nodiscard]] DataTable *table() { return m_table; }
    [[nodiscard]] ParetoPlot *plot() { return m_plot; }
    [[nodiscard]] const std::vector<AlternativeRow> &rows() const { return m_rows; }
    [[nodiscard]] bool computes() const { return m_job.running(); }
    /// What is known of a plan; nullptr: nothing yet.
    [[nodiscard]] const AlternativeFigures *figuresOf(const plan::Plan &plan) const;

Q_SIGNALS:
    void taken(int row); ///< double click or Enter

protected:
    void resizeEvent(QResizeEvent *event) override; ///< the plot beside the table, or above it where it is narrow

private:
    using Figures = std::map<std::string, std::optional<AlternativeFigures>>; ///< by plan::simulationKey

    void askFigures();
    void showTable();
    void showPlot();
    [[nodiscard]] std::vector<Cell> rowCells(const AlternativeRow &row, const simulate::Report *report) const;

    StudioState *m_state;
    QSplitter *m_split;
    ParetoPlot *m_plot;
    DataTable *m_table;
    std::vector<AlternativeRow> m_rows;
    Figures m_figures;
    std::shared_ptr<const cluster::Cluster> m_cluster; ///< that the figures are of
    std::shared_ptr<const graph::Graph> m_graph;
    LatestJob m_job{tr("Figures of alternatives")};
};

} // namespace planloom::ui
