// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>

#include "planners/common/exchange_figures.h"
#include "ui/state/latest_job.h"
#include "ui/widgets/bar_list.h"
#include "ui/widgets/chart.h"
#include "ui/widgets/data_table.h"
#include "ui/widgets/job_strip.h"
#include "ui/widgets/veil.h"

#include <memory>
#include <vector>

class QLineSeries;

namespace planloom::ui {

/// Of a plan that exchanges tables by rows: a table of its tables with what a step takes by each strategy, what a
/// replica sends by number of replicas and by batch, and the exposed communication by scheduling. All of it is
/// simulated beside the UI thread, the tables first; until then what was there before stays, pale and without effect.
/// Knows no state.
class TablePanel final : public QWidget {
    Q_OBJECT

public:
    explicit TablePanel(QWidget *parent = nullptr);
    /// The plan of @p document exchanges by rows.
    void show(const std::shared_ptr<const plan::Document> &document);
    [[nodiscard]] bool computes() const { return m_job.running(); }
    /// False: the tables that are shown are those of an earlier plan.
    [[nodiscard]] bool current() const { return m_current; }
    [[nodiscard]] DataTable *table() { return m_table; }
    [[nodiscard]] BarList *schedulings() { return m_schedulings; }
    [[nodiscard]] PlainChart *chart() { return m_chart; }
    [[nodiscard]] PlainChart *batchChart() { return m_batchChart; }
    [[nodiscard]] QLabel *caption() { return m_caption; }
    [[nodiscard]] JobStrip *strip() { return m_strip; }
    /// Of the strategies that the chart has a line for, in the order of kChartStrategies.
    [[nodiscard]] const std::vector<QLineSeries *> &lines() const { return m_lines; }
    [[nodiscard]] const std::vector<QLineSeries *> &batchLines() const { return m_batchLines; }
    /// Where all-gather sends as much as all-reduce: by replicas (2/α), by the batch (α = 2/N).
    [[nodiscard]] QLineSeries *crossing() { return m_crossing; }
    [[nodiscard]] QLineSeries *batchCrossing() { return m_batchCrossing; }
    /// The batch that looks up nearly all rows (α = 1): from there on all-to-all sends as much as all-reduce.
    [[nodiscard]] QLineSeries *batchWhole() { return m_batchWhole; }
    [[nodiscard]] const std::vector<planners::TableFigures> &figures() const { return m_figures; }

Q_SIGNALS:
    /// The user wants a table exchanged so.
    void wayPicked(const planloom::plan::SparseTable &way);

protected:
    void changeEvent(QEvent *event) override;

private:
    void ask();
    void setCurrent(bool current);
    void askSchedulings(const std::shared_ptr<const plan::Document> &document);
    void take(const Result<std::vector<planners::TableFigures>> &figures);
    void takeSchedulings(const Result<std::vector<planners::ExchangeChoice>> &choices);
    void fill();
    void pick(const QModelIndex &index);
    void draw(std::size_t table);
    void drawReplicas(const planners::TableFigures &figures);
    void drawBatches(const planners::TableFigures &figures);
    void sayCrossings(const planners::TableFigures &figures);
    void applyColors();

    std::shared_ptr<const plan::Document> m_document;
    std::vector<planners::TableFigures> m_figures;
    std::size_t m_drawn = 0; ///< table of the chart
    DataTable *m_table;
    QLabel *m_caption;
    PlainChart *m_chart;
    PlainChart *m_batchChart;
    BarList *m_schedulings;
    JobStrip *m_strip = nullptr;
    std::vector<QLineSeries *> m_lines;
    std::vector<QLineSeries *> m_batchLines;
    QLineSeries *m_now = nullptr; ///< the plan's number of replicas
    QLineSeries *m_crossing = nullptr;
    QLineSeries *m_batchNow = nullptr;
    QLineSeries *m_batchCrossing = nullptr;
    QLineSeries *m_batchWhole = nullptr;
    std::vector<Veil *> m_veils; ///< over what is of tables
    Veil *m_schedulingsVeil;
    bool m_current = true;
    LatestJob m_job;
};

} // namespace planloom::ui
