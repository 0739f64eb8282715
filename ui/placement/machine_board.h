// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPointF>
#include <QRectF>
#include <QString>
#include <QWidget>

#include "ui/placement/placement_figures.h"
#include "ui/state/latest_job.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace planloom::ui {

/// Machines as boxes with a chip for each role, and for each direction of a network card a bar of what it carries,
/// stacked by purpose; the busiest is marked. Chips are dragged to other machines: while one is over a machine, that
/// says what the iteration would take there, or what it lacks. Arrows choose a chip, Shift with an arrow moves it.
/// Lines from the chosen one show what it sends and receives, as wide as the bytes. Knows no state.
class MachineBoard final : public QWidget {
    Q_OBJECT

public:
    using FiguresPtr = std::shared_ptr<const PlacementFigures>;

    explicit MachineBoard(QWidget *parent = nullptr);

    void setFigures(FiguresPtr figures);
    /// Chips are not dragged where another placement than the plan's is shown.
    void setEditable(bool editable) { m_editable = editable; }
    /// Pale while the figures that are shown are of a plan that has changed since.
    void setCurrent(bool current);
    [[nodiscard]] bool isCurrent() const { return m_current; }
    [[nodiscard]] QRectF boxOf(std::int32_t machine) const;
    [[nodiscard]] QRectF chipOf(std::size_t role) const;
    /// What the machine under the dragged chip says; empty: no drag.
    [[nodiscard]] QString hint() const { return m_hint; }
    /// Whether the hint is still computed, beside the UI thread.
    [[nodiscard]] bool computes() const { return m_hints.running(); }
    [[nodiscard]] QString describe(const QPointF &pixel) const;
    [[nodiscard]] QSize minimumSizeHint() const override { return {200, 90}; }
    [[nodiscard]] QSize sizeHint() const override { return {560, 320}; }

Q_SIGNALS:
    void moveAsked(int role, int machine);

protected:
    void paintEvent(QPaintEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void mouseMoveEvent(QMouseEvent *event) override;
    void mouseReleaseEvent(QMouseEvent *event) override;
    void wheelEvent(QWheelEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    bool event(QEvent *event) override;

private:
    static constexpr double kHeader = 20; ///< name of a machine
    static constexpr double kLegend = 38; ///< purposes above kinds of roles

    void arrange();
    void choose(int role);
    void dragTo(const QPointF &pixel);
    void endDrag();
    [[nodiscard]] int roleAt(const QPointF &pixel) const;
    [[nodiscard]] std::int32_t machineAt(const QPointF &pixel) const;
    void askHint(std::size_t role, std::int32_t machine);
    void setDragCursor();
    void takeHint(const Result<MovedRole> &moved);

    // machine_board_paint.cpp
    void paintMachine(QPainter &painter, std::int32_t machine) const;
    void paintCard(QPainter &painter, const QRectF &bar, std::int32_t machine, bool out) const;
    void paintChip(QPainter &painter, const QRectF &box, std::size_t role, bool lifted) const;
    void paintConnections(QPainter &painter) const;
    void paintLegend(QPainter &painter) const;
    [[nodiscard]] QRectF cardOf(std::int32_t machine, bool out) const;

    FiguresPtr m_figures;
    bool m_editable = true;
    bool m_current = true;
    std::vector<QRectF> m_boxes; ///< per machine, before scrolling
    std::vector<QRectF> m_chips; ///< per role, the same
    double m_height = 0;         ///< of all boxes
    double m_scroll = 0;
    int m_chosen = -1; ///< role
    int m_pressed = -1;
    QPointF m_press;
    QPointF m_pointer;
    bool m_dragging = false;
    std::int32_t m_over = -1; ///< machine beneath the dragged chip
    bool m_fits = false;
    QString m_hint;
    LatestJob m_hints;
};

/// Colour and letter of a role's kind.
QColor roleColor(gnn::RoleKind kind);

} // namespace planloom::ui
