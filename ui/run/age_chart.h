// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QList>

#include "engine/dispatch/versions.h"
#include "ui/widgets/chart.h"

#include <vector>

namespace planloom::ui {

/// By worker, then by version of @p arrivals: how many versions before it the worker was last answered; 0: with it.
/// Behind @p pauses, counted from the first version, all begin together.
std::vector<std::vector<int>> agesOf(const dispatch::Arrivals &arrivals, const dispatch::Pauses &pauses, int workers);

/// Of a run with a parameter server: how late each worker is at each version, up to the delay that the plan allows. The
/// tool tip has for each worker how often the versions could not go on without it. Knows no state.
class AgeChart final : public PlainChart {
    Q_OBJECT

public:
    explicit AgeChart(QWidget *parent = nullptr);
    /// Of the first workers, as many as can be told apart, a line each.
    void set(const dispatch::Arrivals &arrivals, const dispatch::Pauses &pauses, int workers, int delay);
    [[nodiscard]] const QList<QLineSeries *> &lines() const { return m_lines; }

protected:
    void changeEvent(QEvent *event) override;

private:
    void paintLines();

    QList<QLineSeries *> m_lines; ///< by worker
    QLineSeries *m_delay;
};

} // namespace planloom::ui
