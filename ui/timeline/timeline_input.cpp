// SPDX-License-Identifier: GPL-3.0-or-later
// The part of TimelineCanvas that mouse and keyboard reach.
#include "ui/timeline/timeline_canvas.h"

#include "ui/timeline/slice_text.h"

#include <QHelpEvent>
#include <QInputDialog>
#include <QKeyEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QToolTip>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

constexpr double kKeyZoom = 1.5;
constexpr double kWheelZoom = 1.2;      // per notch
constexpr double kFineWheelZoom = 1.05; // with alt
constexpr double kKeyPan = 0.15;        // of the width
constexpr int kWheelPixels = 60;        // per notch
constexpr int kDragStart = 3;           // pixels

/// W, A, S and D by their place on the keyboard (X11 and Wayland number keys by place), else by letter.
int navigationKeyOf(const QKeyEvent &event)
{
    switch (event.nativeScanCode()) {
    case 25: return Qt::Key_W;
    case 38: return Qt::Key_A;
    case 39: return Qt::Key_S;
    case 40: return Qt::Key_D;
    default: return event.key();
    }
}

} // namespace

bool TimelineCanvas::event(QEvent *event)
{
    if (event->type() == QEvent::ShortcutOverride) {
        // Single letters belong to the canvas while it has the focus, whatever else uses them.
        const auto *key = static_cast<QKeyEvent *>(event);
        if (!key->text().isEmpty() && (key->modifiers() == Qt::NoModifier || key->modifiers() == Qt::ShiftModifier)) {
            event->accept();
            return true;
        }
    }
    if (event->type() == QEvent::ToolTip) {
        const auto *help = static_cast<QHelpEvent *>(event);
        const auto slice = m_viewport.sliceAt(help->pos());
        if (slice)
            QToolTip::showText(help->globalPos(), sliceText(*m_model, *slice), this);
        else
            QToolTip::hideText();
        return true;
    }
    return QWidget::event(event);
}

void TimelineCanvas::resizeEvent(QResizeEvent *) { m_viewport.resize(size()); }

void TimelineCanvas::mousePressEvent(QMouseEvent *event)
{
    setFocus(Qt::MouseFocusReason);
    m_press = m_last = event->pos();
    m_moved = false;
    const bool pans = event->button() == Qt::MiddleButton
        || (event->button() == Qt::LeftButton && event->modifiers() & Qt::ShiftModifier);
    if (pans)
        m_drag = Drag::Pan;
    else if (event->button() == Qt::LeftButton && event->pos().x() >= m_viewport.rows().x())
        m_drag = Drag::Range;
    if (m_drag != Drag::None)
        m_viewport.remember();
}

void TimelineCanvas::mouseMoveEvent(QMouseEvent *event)
{
    const QPoint at = event->pos();
    m_moved = m_moved || (at - m_press).manhattanLength() > kDragStart;
    if (m_drag == Drag::Pan && m_moved) {
        m_viewport.drag(at - m_last);
    } else if (m_drag == Drag::Range && m_moved) {
        const int left = m_viewport.rows().x();
        const double a = m_viewport.timeAt(std::max(m_press.x(), left));
        const double b = m_viewport.timeAt(std::max(at.x(), left));
        m_overlay.setRange(TimeRange{std::llround(std::min(a, b)), std::llround(std::max(a, b))});
        update();
    } else {
        const auto hover = m_viewport.sliceAt(at);
        if (m_overlay.setHover(hover)) {
            setCursor(hover ? Qt::PointingHandCursor : Qt::ArrowCursor);
            update();
        }
    }
    m_last = at;
}

void TimelineCanvas::mouseReleaseEvent(QMouseEvent *event)
{
    const Drag drag = std::exchange(m_drag, Drag::None);
    if (drag == Drag::Range && m_moved) {
        Q_EMIT rangePicked(m_overlay.range());
        return;
    }
    if (m_moved)
        return;
    const auto slice = m_viewport.sliceAt(event->pos());
    if (event->button() == Qt::MiddleButton) {
        if (slice)
            m_viewport.fit(*slice);
        return;
    }
    if (event->button() != Qt::LeftButton)
        return;
    if (event->pos().x() < m_viewport.rows().x()) {
        if (const auto row = m_viewport.rowAt(event->pos().y()))
            Q_EMIT deviceClicked(std::string(m_model->groups()[m_model->rows()[*row].group].device));
        return;
    }
    if (!slice && m_overlay.range()) {
        m_overlay.setRange(std::nullopt);
        Q_EMIT rangePicked(std::nullopt);
    }
    pick(slice);
}

void TimelineCanvas::mouseDoubleClickEvent(QMouseEvent *event)
{
    if (const auto slice = m_viewport.sliceAt(event->pos()))
        m_viewport.fit(*slice);
    m_moved = true; // the release that follows picks nothing
}

void TimelineCanvas::contextMenuEvent(QContextMenuEvent *event)
{
    QMenu menu;
    const bool byKey = event->reason() == QContextMenuEvent::Keyboard;
    const auto row = byKey && m_picked ? m_model->rowOf(*m_picked) : m_viewport.rowAt(event->pos().y());
    for (const RowCommand &command : rowCommands(*m_model, row))
        connect(menu.addAction(command.text), &QAction::triggered, this,
                [this, after = command.after] { choose(after); });
    if (!menu.isEmpty())
        menu.exec(event->globalPos());
}

void TimelineCanvas::wheelEvent(QWheelEvent *event)
{
    const bool zooms = event->modifiers() & Qt::ControlModifier;
    const QPoint delta = event->angleDelta();
    const double notches = (std::abs(delta.y()) >= std::abs(delta.x()) ? delta.y() : delta.x()) / 120.0;
    if (zooms) {
        const double base = event->modifiers() & Qt::AltModifier ? kFineWheelZoom : kWheelZoom;
        m_viewport.zoomAt(std::pow(base, notches), event->position().x());
    } else if (event->modifiers() & Qt::ShiftModifier || std::abs(delta.x()) > std::abs(delta.y())) {
        m_viewport.pan(-notches * kWheelPixels);
    } else {
        m_viewport.scrollBy(-static_cast<int>(notches * kWheelPixels));
    }
    event->accept();
}

bool TimelineCanvas::navigationKey(const QKeyEvent &event)
{
    if (event.modifiers() & (Qt::ControlModifier | Qt::AltModifier))
        return false;
    const QRect rows = m_viewport.rows();
    switch (navigationKeyOf(event)) {
    case Qt::Key_W:
    case Qt::Key_Plus: m_viewport.zoomBy(kKeyZoom); return true;
    case Qt::Key_S:
    case Qt::Key_Minus: m_viewport.zoomBy(1 / kKeyZoom); return true;
    case Qt::Key_A:
    case Qt::Key_Left: m_viewport.pan(-kKeyPan * rows.width()); return true;
    case Qt::Key_D:
    case Qt::Key_Right: m_viewport.pan(kKeyPan * rows.width()); return true;
    case Qt::Key_Up: m_viewport.scrollBy(-kWheelPixels); return true;
    case Qt::Key_Down: m_viewport.scrollBy(kWheelPixels); return true;
    case Qt::Key_PageUp: m_viewport.scrollBy(-rows.height()); return true;
    case Qt::Key_PageDown: m_viewport.scrollBy(rows.height()); return true;
    case Qt::Key_0:
    case Qt::Key_Home: m_viewport.showAll(); return true;
    case Qt::Key_End: setFollow(true); return true;
    case Qt::Key_F: m_viewport.focus(m_overlay.range(), m_picked); return true;
    case Qt::Key_Backspace: m_viewport.back(); return true;
    default: return false;
    }
}

bool TimelineCanvas::commandKey(const QKeyEvent &event)
{
    const bool shifted = event.modifiers() & Qt::ShiftModifier;
    switch (event.key()) {
    case Qt::Key_Period: step(+1, false); return true;
    case Qt::Key_Comma: step(-1, false); return true;
    case Qt::Key_BracketRight: shifted ? step(+1, true) : stepAlongLinks(+1); return true;
    case Qt::Key_BracketLeft: shifted ? step(-1, true) : stepAlongLinks(-1); return true;
    case Qt::Key_BraceRight: step(+1, true); return true; // Shift+] on most keyboards
    case Qt::Key_BraceLeft: step(-1, true); return true;
    case Qt::Key_C: Q_EMIT pathAsked(); return true;
    case Qt::Key_R: Q_EMIT rangeTableAsked(); return true;
    case Qt::Key_L: Q_EMIT analysisAsked(); return true;
    case Qt::Key_H: useRowCommand(shifted ? RowCommand::What::ShowAll : RowCommand::What::HideRow); return true;
    case Qt::Key_P: useRowCommand(RowCommand::What::Pin); return true;
    case Qt::Key_X:
        useRowCommand(shifted ? RowCommand::What::CollapseStage : RowCommand::What::CollapseNode);
        return true;
    case Qt::Key_Slash: Q_EMIT searchAsked(); return true;
    case Qt::Key_Question: Q_EMIT helpAsked(); return true;
    case Qt::Key_Delete:
        if (m_overlay.removeMark(centre()))
            update();
        return true;
    case Qt::Key_Escape: clear(); return true;
    case Qt::Key_M: break;
    default: return false;
    }
    if (!shifted) {
        addMark({});
        return true;
    }
    bool accepted = false;
    const QString name =
        QInputDialog::getText(this, tr("Mark"), tr("Name of the mark:"), QLineEdit::Normal, {}, &accepted);
    if (accepted)
        addMark(name);
    return true;
}

void TimelineCanvas::keyPressEvent(QKeyEvent *event)
{
    if (event->modifiers() == Qt::AltModifier && event->key() == Qt::Key_Left)
        return m_viewport.back();
    if (navigationKey(*event) || (!(event->modifiers() & Qt::ControlModifier) && commandKey(*event)))
        return;
    QWidget::keyPressEvent(event);
}

void TimelineCanvas::leaveEvent(QEvent *)
{
    m_overlay.setHover(std::nullopt);
    update();
}

void TimelineCanvas::focusInEvent(QFocusEvent *) { update(); }

void TimelineCanvas::focusOutEvent(QFocusEvent *) { update(); }

void TimelineCanvas::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) {
        m_painter.refreshStyles();
        invalidate();
    }
    QWidget::changeEvent(event);
}

} // namespace planloom::ui
