// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QWidget>

#include "ui/planview/alternative_figures.h"

#include <optional>
#include <vector>

namespace planloom::ui {

/// Plans as points: seconds of an iteration against the fullest device's peak, with the line that joins those that no
/// other one beats in both (the Pareto front). The open plan is a filled diamond, kept plans are squares, alternatives
/// circles; those of the front are filled. Left and Right go from point to point.
class ParetoPlot final : public QWidget {
    Q_OBJECT

public:
    enum class Mark { Open, Kept, Alternative };
    /// One plan.
    struct Point {
        AlternativeFigures figures;
        QString name;
        Mark mark = Mark::Alternative;
        int row = -1; ///< of the table; -1: the open plan
        bool front = false;
    };

    explicit ParetoPlot(QWidget *parent = nullptr);
    void set(std::vector<Point> points);
    [[nodiscard]] const std::vector<Point> &points() const { return m_points; }
    [[nodiscard]] QPointF placeOf(std::size_t point) const; ///< in the widget
    void mark(int row);                                     ///< outlines the point of a row of the table; -1: none
    [[nodiscard]] QString textAt(const QPointF &place) const;
    [[nodiscard]] QSize minimumSizeHint() const override { return {110, 80}; }
    [[nodiscard]] QSize sizeHint() const override { return {260, 180}; }

Q_SIGNALS:
    void picked(int row);    ///< -1: the open plan
    void activated(int row); ///< double click, or Enter

protected:
    void paintEvent(QPaintEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void mouseDoubleClickEvent(QMouseEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    bool event(QEvent *event) override;

private:
    [[nodiscard]] QRectF plot() const;
    [[nodiscard]] std::optional<std::size_t> nearest(const QPointF &place) const;
    void paintAxes(QPainter &painter) const;
    void paintFront(QPainter &painter) const;
    void paintPoint(QPainter &painter, std::size_t point) const;

    std::vector<Point> m_points; ///< by seconds
    double m_mostSeconds = 1;
    double m_leastSeconds = 0;
    double m_mostBytes = 1;
    double m_leastBytes = 0;
    int m_marked = -2; ///< row; -2: none
};

} // namespace planloom::ui
