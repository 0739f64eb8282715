// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/state/memory_moves.h"

#include <memory>
#include <optional>
#include <vector>

namespace planloom::ui {

/// The decisions of memory policies as points: what it takes to copy a tensor to the host and back, against what it
/// takes to make it again, both on logarithmic scales, with the line on which both are equal. Below it a copy is the
/// cheaper. What is copied and what is dropped differ in shape as well as in colour.
class CopyScatter final : public QWidget {
    Q_OBJECT

public:
    explicit CopyScatter(QWidget *parent = nullptr);
    /// The decisions of @p device; without a valid one all. Null: none.
    void set(std::shared_ptr<const MemoryMoves> moves, DeviceId device);
    [[nodiscard]] std::size_t points() const { return m_points.size(); }
    /// Number of the decision of a point, in MemoryMoves, and where it is painted.
    [[nodiscard]] std::size_t decisionOf(std::size_t point) const { return m_points[point]; }
    [[nodiscard]] QPointF placeOf(std::size_t point) const;
    /// Marks a tensor's points without tensorPicked() being sent.
    void mark(std::optional<std::size_t> tensor);
    /// What is said of the point there; empty: there is none.
    [[nodiscard]] QString textAt(const QPointF &place) const;
    /// Why there is no point.
    [[nodiscard]] QString emptyText() const;
    [[nodiscard]] QSize minimumSizeHint() const override { return {180, 120}; }
    [[nodiscard]] QSize sizeHint() const override { return {360, 200}; }

Q_SIGNALS:
    void tensorPicked(std::size_t tensor);

protected:
    void paintEvent(QPaintEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    bool event(QEvent *event) override;

private:
    [[nodiscard]] const MemoryMoves::Decision &decision(std::size_t point) const
    {
        return m_moves->decisions[m_points[point]];
    }
    [[nodiscard]] QRectF plot() const;
    [[nodiscard]] QPointF at(double againSeconds, double copySeconds) const;
    [[nodiscard]] std::optional<std::size_t> nearest(const QPointF &place) const;
    void paintAxes(QPainter &painter) const;
    void paintPoints(QPainter &painter) const;
    void paintLegend(QPainter &painter) const;

    std::shared_ptr<const MemoryMoves> m_moves;
    std::vector<std::size_t> m_points; ///< decisions
    bool m_isOfAll = true;             ///< of all devices
    std::size_t m_without = 0;         ///< decisions that have no place, as nothing is to be made again
    int m_low = -6;                    ///< decades of both scales, in seconds
    int m_high = 0;
    std::optional<std::size_t> m_picked; ///< tensor
};

} // namespace planloom::ui
