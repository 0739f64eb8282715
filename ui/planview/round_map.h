// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "planners/common/averaging_map.h"

#include <optional>

namespace planloom::ui {

/// Lengths of rounds (τ) against delays (d): a cell for each pair, with the seconds that a step of progress takes, the
/// stronger its colour the more; hatched where a plan cannot have them or merges keep nothing. The plan's cell is
/// ticked, the least has a star. Arrow keys or a click choose a cell, Enter or a double click asks for it. Knows no
/// state.
class RoundMap final : public QWidget {
    Q_OBJECT

public:
    explicit RoundMap(QWidget *parent = nullptr);
    /// The plan's own pair is chosen at first.
    void set(planners::AveragingMap map, std::int64_t localSteps, std::int64_t delay);
    void clear() { set({}, 0, 0); }
    [[nodiscard]] const planners::AveragingMap &map() const { return m_map; }
    /// The chosen one; null: none.
    [[nodiscard]] const planners::AveragingCell *chosen() const;
    void choose(const planners::AveragingCell &cell);
    [[nodiscard]] QRectF cellRect(const planners::AveragingCell &cell) const;
    /// Null beside the cells.
    [[nodiscard]] const planners::AveragingCell *cellAt(const QPointF &pixel) const;
    /// "12.1 ms", with the signs of the plan's and of the least; empty where there is none.
    [[nodiscard]] QString textOf(const planners::AveragingCell &cell) const;
    /// What is said of a cell beneath the map and to screen readers.
    [[nodiscard]] QString describe(const planners::AveragingCell &cell) const;
    [[nodiscard]] QColor colorOf(const planners::AveragingCell &cell) const;
    [[nodiscard]] QSize sizeHint() const override;
    [[nodiscard]] QSize minimumSizeHint() const override { return sizeHint(); }

Q_SIGNALS:
    void picked(std::int64_t localSteps, std::int64_t delay);

protected:
    void paintEvent(QPaintEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void mouseDoubleClickEvent(QMouseEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    bool event(QEvent *event) override;

private:
    [[nodiscard]] int rowHeight() const { return fontMetrics().height() + 8; }
    [[nodiscard]] QRectF cellsRect() const;
    [[nodiscard]] bool isOwn(const planners::AveragingCell &cell) const;
    void pick();
    void walk(int rounds, int delays);
    void paintCell(QPainter &painter, const planners::AveragingCell &cell) const;
    void paintNames(QPainter &painter) const;

    planners::AveragingMap m_map;
    std::int64_t m_localSteps = 0; ///< the plan's
    std::int64_t m_delay = 0;
    std::optional<std::size_t> m_chosen; ///< cell
    double m_least = 0;                  ///< seconds of a step of progress
    double m_most = 0;
};

} // namespace planloom::ui
