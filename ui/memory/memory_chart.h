// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/widgets/chart.h"

#include <vector>

namespace planloom::ui {

/// The chart of memory over time, at whose foot the times are marked in which the compute lane waits for a copy.
/// Tool tips describe the marks.
class MemoryChart final : public PlainChart {
    Q_OBJECT

public:
    /// A mark: from when to when, in the unit of the axis, and what is said of it.
    struct Stall {
        double begin = 0;
        double end = 0;
        QString text;
    };

    using PlainChart::PlainChart;
    void setStalls(std::vector<Stall> stalls);
    [[nodiscard]] const std::vector<Stall> &stalls() const { return m_stalls; }
    /// Where a mark is painted, in the viewport; at least so wide that it is seen.
    [[nodiscard]] QRectF stallRect(std::size_t stall) const;
    /// What is said at a point of the viewport; empty: nothing.
    [[nodiscard]] QString textAt(const QPoint &point) const;

protected:
    void drawForeground(QPainter *painter, const QRectF &rect) override;
    bool viewportEvent(QEvent *event) override;

private:
    [[nodiscard]] QRectF markOf(const Stall &stall) const; ///< in the scene

    std::vector<Stall> m_stalls;
};

} // namespace planloom::ui
