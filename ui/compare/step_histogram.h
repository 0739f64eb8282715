// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "engine/compare/histogram.h"

namespace planloom::ui {

/// How long the steps of A and B took: bars of A plain, of B hatched, each as the share of its own run's steps, so that
/// runs of different lengths compare.
class StepHistogram final : public QWidget {
    Q_OBJECT

public:
    explicit StepHistogram(QWidget *parent = nullptr);
    /// @p medianA, @p medianB: seconds, marked by lines; 0: none.
    void set(compare::Histogram histogram, double medianA, double medianB);
    [[nodiscard]] QSize sizeHint() const override { return {420, 220}; }
    [[nodiscard]] QString legendText() const;
    /// Pixels of the bar of a bin; empty: it has no steps.
    [[nodiscard]] QRect barOf(bool isB, int bin) const;

protected:
    void paintEvent(QPaintEvent *event) override;

private:
    [[nodiscard]] QRect plot() const;
    [[nodiscard]] double highestShare() const;
    static void paintBar(QPainter &painter, const QRect &box, bool isB);
    void paintLegend(QPainter &painter) const;
    void paintAxes(QPainter &painter) const;
    void paintMedian(QPainter &painter, double seconds, bool isB) const;

    compare::Histogram m_histogram;
    double m_medians[2] = {0, 0};
};

} // namespace planloom::ui
