// SPDX-License-Identifier: GPL-3.0-or-later
// The part of TimelineCanvas that mouse, keyboard and screen readers reach.
#include "ui/timeline/timeline_canvas.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QAccessible>
#include <QHelpEvent>
#include <QInputDialog>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QToolTip>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

constexpr double kHoverTolerance = 3; // pixels around a slice too narrow to hit
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

std::optional<TimelineModel::Slice> TimelineCanvas::sliceAt(const QPoint &at) const
{
    const QRect rows = rowsArea();
    if (!rows.contains(at))
        return std::nullopt;
    const auto row = m_model->rowAt(at.y() - rows.y() + m_scroll);
    if (!row)
        return std::nullopt;
    return m_model->sliceAt(*row, timeAt(at.x()), kHoverTolerance * m_axis.nanosecondsPerPixel());
}

QString TimelineCanvas::describe(const TimelineModel::Slice &slice) const
{
    const trace::Record record = m_model->record(slice);
    const trace::TaskInfo &task = m_model->task(slice);
    QStringList lines{tr("%1 — %2").arg(qt(task.id), qt(m_model->kind(slice).name))};
    QString where = qt(m_model->device(slice));
    if (task.stage >= 0)
        where += tr(", stage %1").arg(task.stage);
    if (task.microBatch >= 0)
        where += tr(", micro-batch %1").arg(task.microBatch);
    lines << where;
    lines << tr("%1: %2 from %3")
                 .arg(tr(m_model->clockName(slice.measured)), nanosecondsText(record.duration),
                      nanosecondsText(record.start));
    if (slice.measured)
        lines.last() += tr(" (step %1)").arg(record.step);
    if (const std::int64_t waiting = m_model->waiting(slice); waiting > 0)
        lines << tr("of that %1 waiting for others, %2 working")
                     .arg(nanosecondsText(waiting), nanosecondsText(record.duration - waiting));
    if (const auto other = m_model->counterpart(slice)) {
        const trace::Record twin = m_model->record(*other);
        lines << tr("%1: %2").arg(tr(m_model->clockName(other->measured)), nanosecondsText(twin.duration));
        if (other->measured)
            lines.last() += tr(" (step %1)").arg(twin.step);
        const auto measured = static_cast<double>(slice.measured ? record.duration : twin.duration);
        const auto predicted = static_cast<double>(slice.measured ? twin.duration : record.duration);
        if (predicted > 0)
            lines << tr("%1 / predicted: %2").arg(tr(m_model->clockName(true))).arg(measured / predicted, 0, 'f', 2);
    }
    return lines.join(QLatin1Char('\n'));
}

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
        const auto slice = sliceAt(help->pos());
        if (slice)
            QToolTip::showText(help->globalPos(), describe(*slice), this);
        else
            QToolTip::hideText();
        return true;
    }
    return QWidget::event(event);
}

void TimelineCanvas::resizeEvent(QResizeEvent *)
{
    const bool all = m_axis.showsAll();
    m_axis.setPixels(rowsArea().width());
    if (all)
        m_axis.showAll();
    changedView();
}

void TimelineCanvas::mousePressEvent(QMouseEvent *event)
{
    setFocus(Qt::MouseFocusReason);
    m_press = m_last = event->pos();
    m_moved = false;
    const bool pans = event->button() == Qt::MiddleButton
        || (event->button() == Qt::LeftButton && event->modifiers() & Qt::ShiftModifier);
    if (pans)
        m_drag = Drag::Pan;
    else if (event->button() == Qt::LeftButton && event->pos().x() >= rowsArea().x())
        m_drag = Drag::Range;
    if (m_drag != Drag::None)
        remember();
}

void TimelineCanvas::mouseMoveEvent(QMouseEvent *event)
{
    const QPoint at = event->pos();
    m_moved = m_moved || (at - m_press).manhattanLength() > kDragStart;
    if (m_drag == Drag::Pan && m_moved) {
        m_axis.pan(m_last.x() - at.x());
        m_scroll += m_last.y() - at.y();
        userMoved();
    } else if (m_drag == Drag::Range && m_moved) {
        const double a = timeAt(std::max(m_press.x(), rowsArea().x()));
        const double b = timeAt(std::max(at.x(), rowsArea().x()));
        m_range = TimeRange{std::llround(std::min(a, b)), std::llround(std::max(a, b))};
        update();
    } else {
        const auto hover = sliceAt(at);
        if (hover != m_hover) {
            m_hover = hover;
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
        Q_EMIT rangePicked(m_range);
        return;
    }
    if (m_moved)
        return;
    const auto slice = sliceAt(event->pos());
    if (event->button() == Qt::MiddleButton) {
        if (slice)
            fitSlice(*slice);
        return;
    }
    if (event->button() != Qt::LeftButton)
        return;
    if (event->pos().x() < rowsArea().x()) {
        const auto row = m_model->rowAt(event->pos().y() - rowsArea().y() + m_scroll);
        if (row)
            Q_EMIT deviceClicked(std::string(m_model->groups()[m_model->rows()[*row].group].device));
        return;
    }
    if (!slice && m_range) {
        m_range.reset();
        Q_EMIT rangePicked(std::nullopt);
    }
    pick(slice);
}

void TimelineCanvas::mouseDoubleClickEvent(QMouseEvent *event)
{
    if (const auto slice = sliceAt(event->pos()))
        fitSlice(*slice);
    m_moved = true; // the release that follows picks nothing
}

void TimelineCanvas::wheelEvent(QWheelEvent *event)
{
    const bool zooms = event->modifiers() & Qt::ControlModifier;
    const QPoint delta = event->angleDelta();
    const double notches = (std::abs(delta.y()) >= std::abs(delta.x()) ? delta.y() : delta.x()) / 120.0;
    if (zooms) {
        const double base = event->modifiers() & Qt::AltModifier ? kFineWheelZoom : kWheelZoom;
        m_axis.zoom(std::pow(base, notches), event->position().x() - rowsArea().x());
        userMoved();
    } else if (event->modifiers() & Qt::ShiftModifier || std::abs(delta.x()) > std::abs(delta.y())) {
        m_axis.pan(-notches * kWheelPixels);
        userMoved();
    } else {
        setScroll(std::clamp(m_scroll - static_cast<int>(notches * kWheelPixels), 0,
                             std::max(0, m_model->contentHeight() - rowsArea().height())));
    }
    event->accept();
}

bool TimelineCanvas::navigationKey(const QKeyEvent &event)
{
    if (event.modifiers() & (Qt::ControlModifier | Qt::AltModifier))
        return false;
    const double width = rowsArea().width();
    switch (navigationKeyOf(event)) {
    case Qt::Key_W:
    case Qt::Key_Plus: zoomBy(kKeyZoom); return true;
    case Qt::Key_S:
    case Qt::Key_Minus: zoomBy(1 / kKeyZoom); return true;
    case Qt::Key_A:
    case Qt::Key_Left:
        m_axis.pan(-kKeyPan * width);
        userMoved();
        return true;
    case Qt::Key_D:
    case Qt::Key_Right:
        m_axis.pan(kKeyPan * width);
        userMoved();
        return true;
    case Qt::Key_Up: setScroll(std::max(0, m_scroll - kWheelPixels)); return true;
    case Qt::Key_Down:
        m_scroll += kWheelPixels;
        changedView();
        return true;
    case Qt::Key_PageUp: setScroll(std::max(0, m_scroll - rowsArea().height())); return true;
    case Qt::Key_PageDown:
        m_scroll += rowsArea().height();
        changedView();
        return true;
    case Qt::Key_0:
    case Qt::Key_Home: showAll(); return true;
    case Qt::Key_End: setFollow(true); return true;
    case Qt::Key_F: focusSelection(); return true;
    case Qt::Key_Backspace: previousView(); return true;
    default: return false;
    }
}

bool TimelineCanvas::commandKey(const QKeyEvent &event)
{
    switch (event.key()) {
    case Qt::Key_Period: step(+1, false); return true;
    case Qt::Key_Comma: step(-1, false); return true;
    case Qt::Key_BracketRight: step(+1, true); return true;
    case Qt::Key_BracketLeft: step(-1, true); return true;
    case Qt::Key_Slash: Q_EMIT searchAsked(); return true;
    case Qt::Key_Question: Q_EMIT helpAsked(); return true;
    case Qt::Key_Delete: removeMark(); return true;
    case Qt::Key_Escape: clear(); return true;
    case Qt::Key_M: break;
    default: return false;
    }
    if (!(event.modifiers() & Qt::ShiftModifier)) {
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
        return previousView();
    if (navigationKey(*event) || (!(event->modifiers() & Qt::ControlModifier) && commandKey(*event)))
        return;
    QWidget::keyPressEvent(event);
}

void TimelineCanvas::leaveEvent(QEvent *)
{
    m_hover.reset();
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

void TimelineCanvas::describeForReaders()
{
    QString text = m_model->empty()
        ? tr("empty")
        : tr("%1 rows of %2 devices").arg(m_model->rows().size()).arg(m_model->groups().size());
    if (m_picked)
        text += QStringLiteral("; ") + describe(*m_picked).replace(QLatin1Char('\n'), QStringLiteral("; "));
    if (text == accessibleDescription())
        return;
    setAccessibleDescription(text);
    QAccessibleEvent changed(this, QAccessible::DescriptionChanged);
    QAccessible::updateAccessibility(&changed);
}

} // namespace planloom::ui
