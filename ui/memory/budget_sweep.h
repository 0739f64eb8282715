// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QWidget>

#include "planners/common/memory_sweep.h"
#include "ui/state/latest_job.h"
#include "ui/widgets/chart.h"
#include "ui/widgets/data_table.h"
#include "ui/widgets/job_strip.h"
#include "ui/widgets/veil.h"

#include <memory>
#include <vector>

class QLineSeries;

namespace planloom::ui {

/// How much longer a step takes with each memory policy, by its budget: a line and a row of a table for each,
/// of its colour; the line of the chosen row is thick. All of it
/// is simulated beside the UI thread; until then what was there before stays, pale and without effect. Knows no state.
class BudgetSweep final : public QWidget {
    Q_OBJECT

public:
    explicit BudgetSweep(QWidget *parent = nullptr);
    /// Null: there is no plan.
    void show(const std::shared_ptr<const plan::Document> &document);
    [[nodiscard]] bool computes() const { return m_job.running(); }
    [[nodiscard]] const planners::MemorySweep &sweep() const { return m_sweep; }
    [[nodiscard]] PlainChart *chart() { return m_chart; }
    [[nodiscard]] DataTable *table() { return m_table; }
    [[nodiscard]] JobStrip *strip() { return m_strip; }
    /// Of the sweep's curves.
    [[nodiscard]] const std::vector<QLineSeries *> &lines() const { return m_lines; }

Q_SIGNALS:
    /// The user wants this policy, with a budget of that share.
    void picked(planloom::plan::MemoryFilter filter, double share);

protected:
    void changeEvent(QEvent *event) override;

private:
    void ask();
    void setCurrent(bool current);
    void take(const Result<planners::MemorySweep> &sweep);
    void fill();
    void draw();
    void pick(const QModelIndex &index);
    void applyColors();

    std::shared_ptr<const plan::Document> m_document;
    planners::MemorySweep m_sweep;
    QString m_problem; ///< why there is none
    bool m_current = true;
    PlainChart *m_chart;
    DataTable *m_table;
    JobStrip *m_strip = nullptr;
    std::vector<QLineSeries *> m_lines;
    int m_thick = -1; ///< the line whose row is chosen
    std::vector<Veil *> m_veils;
    LatestJob m_job;
};

} // namespace planloom::ui
