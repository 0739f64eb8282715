// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/widgets/chart.h"

#include <optional>
#include <vector>

namespace planloom::ui {

/// The chart of memory over time, at whose foot the times are marked in which the compute lane waits for a copy.
/// Tool tips describe the marks. A line follows the mouse, with a box of the values there; a click picks a moment,
/// which another line marks.
class MemoryChart final : public PlainChart {
    Q_OBJECT

public:
    /// A mark: from when to when, in the unit of the axis, and what is said of it.
    struct Stall {
        double begin = 0;
        double end = 0;
        QString text;
    };

    MemoryChart(const QString &name, const QString &xTitle, const QString &yTitle, QWidget *parent = nullptr);
    void setStalls(std::vector<Stall> stalls);
    [[nodiscard]] const std::vector<Stall> &stalls() const { return m_stalls; }
    /// Where a mark is painted, in the viewport; at least so wide that it is seen.
    [[nodiscard]] QRectF stallRect(std::size_t stall) const;
    /// What is said at a point of the viewport; empty: nothing.
    [[nodiscard]] QString textAt(const QPoint &point) const;
    /// Where the picked moment is, in the unit of the axis; nullopt: there is none.
    void setMoment(std::optional<double> at);
    [[nodiscard]] std::optional<double> momentShown() const { return m_moment; }
    /// What the box says while the mouse is over the plot.
    void setHoverText(const QString &text);
    [[nodiscard]] QString hoverText() const { return m_hoverText; }
    [[nodiscard]] QPointF placeOf(double x, double y) const; ///< in the viewport

Q_SIGNALS:
    void hovered(double x);          ///< in the unit of the axis
    void left();                     ///< the mouse is over the plot no more
    void picked(double x, double y); ///< a click, in the units of the axes

protected:
    void drawForeground(QPainter *painter, const QRectF &rect) override;
    bool viewportEvent(QEvent *event) override;
    void mouseMoveEvent(QMouseEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;

private:
    [[nodiscard]] std::optional<QPointF> valueAt(const QPointF &place) const;
    void leave();
    void drawHover(QPainter &painter) const;
    [[nodiscard]] QRectF markOf(const Stall &stall) const; ///< in the scene

    std::vector<Stall> m_stalls;
    std::optional<double> m_moment;
    std::optional<double> m_hover; ///< in the unit of the axis
    QString m_hoverText;
};

} // namespace planloom::ui
