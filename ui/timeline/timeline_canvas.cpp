// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_canvas.h"

#include "ui/theme/theme.h"
#include "ui/timeline/slice_text.h"

#include <QAccessible>
#include <QCursor>
#include <QPainter>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

TimelineCanvas::TimelineCanvas(TimelineModel *model, QWidget *parent)
    : QWidget(parent),
      m_model(model),
      m_viewport(*model,
                 [this] {
                     invalidate();
                     Q_EMIT viewChanged();
                 }),
      m_overlay(*model)
{
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    setMinimumSize(320, 120);
    setAttribute(Qt::WA_OpaquePaintEvent);
    setAccessibleName(tr("Timeline"));
    describeForReaders();
}

void TimelineCanvas::modelChanged(bool keepView)
{
    m_overlay.forget();
    m_picked.reset();
    if (!m_selection.task.empty())
        m_picked = m_model->find(m_selection.task, m_selectedDevice);
    describeForReaders();
    m_viewport.modelChanged(size(), keepView);
}

void TimelineCanvas::setSelection(const Selection &selection, const std::string &device)
{
    m_selection = selection;
    m_selectedDevice = device;
    m_overlay.setRange(selection.time);
    if (selection.task.empty()) {
        m_picked.reset();
    } else if (!m_picked || m_model->task(*m_picked).id != selection.task) {
        m_picked = m_model->find(selection.task, device);
        if (m_picked)
            m_viewport.reveal(*m_picked);
    }
    describeForReaders();
    invalidate();
}

void TimelineCanvas::invalidate()
{
    m_stale = true;
    update();
}

void TimelineCanvas::setFollow(bool follow)
{
    m_viewport.follow(follow);
    modelChanged(true);
}

double TimelineCanvas::centre() const
{
    const TimeAxis &axis = m_viewport.axis();
    return m_picked ? static_cast<double>(m_model->record(*m_picked).start) : (axis.begin() + axis.end()) / 2;
}

void TimelineCanvas::addMark(const QString &name)
{
    const QPoint mouse = mapFromGlobal(QCursor::pos());
    const double time = m_viewport.rows().contains(mouse) ? m_viewport.timeAt(mouse.x()) : centre();
    m_overlay.addMark(std::llround(time), name);
    update();
}

void TimelineCanvas::setEmptyText(const QString &text)
{
    if (text == m_emptyText)
        return;
    m_emptyText = text;
    update();
}

void TimelineCanvas::pick(const std::optional<TimelineModel::Slice> &slice)
{
    m_picked = slice;
    if (slice)
        Q_EMIT picked(m_model->task(*slice).id, m_model->device(*slice));
    else
        Q_EMIT picked({}, {});
}

void TimelineCanvas::step(int by, bool alongMicroBatch)
{
    std::optional<TimelineModel::Slice> next;
    if (m_picked)
        next = alongMicroBatch ? m_model->alongMicroBatch(*m_picked, by) : m_model->onRow(*m_picked, by);
    else if (!m_model->empty())
        next = m_model->sliceAt(0, m_viewport.axis().begin(), m_viewport.axis().span());
    if (!next)
        return;
    pick(next);
    m_viewport.reveal(*next);
}

void TimelineCanvas::clear()
{
    m_overlay.setRange(std::nullopt);
    m_drag = Drag::None;
    Q_EMIT rangePicked(std::nullopt);
    pick(std::nullopt);
    update();
}

void TimelineCanvas::renderCache()
{
    const qreal ratio = devicePixelRatioF();
    if (m_cache.size() != size() * ratio) {
        m_cache = QPixmap(size() * ratio);
        m_cache.setDevicePixelRatio(ratio);
    }
    QPainter painter(&m_cache);
    m_painter.paint(painter, scene(), font());
    m_stale = false;
}

TimelineScene TimelineCanvas::scene() const
{
    TimelineScene made;
    made.model = m_model;
    made.axis = m_viewport.axis();
    made.scroll = m_viewport.scroll();
    made.area = m_viewport.rows();
    made.selectedTask = m_selection.task;
    made.selectedDevice = m_selectedDevice;
    made.selectedStage = m_selection.stage.value;
    return made;
}

QSize TimelineCanvas::wholeSize() const
{
    return {width(), std::min(TimelinePainter::kRuler + m_model->layout().height(), kMostPixels)};
}

void TimelineCanvas::paintWhole(QPainter &painter)
{
    TimelineScene whole = scene();
    whole.scroll = 0;
    whole.area.setHeight(wholeSize().height() - TimelinePainter::kRuler);
    m_painter.paint(painter, whole, font());
}

void TimelineCanvas::paintEvent(QPaintEvent *)
{
    if (m_stale || m_cache.isNull())
        renderCache();
    QPainter painter(this);
    if (m_model->empty()) {
        painter.fillRect(rect(), theme().base);
        painter.setPen(theme().dimText);
        painter.drawText(rect(), Qt::AlignCenter, m_emptyText);
    } else {
        painter.drawPixmap(0, 0, m_cache);
        if (!m_overlay.paint(painter, m_viewport, height()))
            QMetaObject::invokeMethod(
                this, [this] { update(); }, Qt::QueuedConnection);
    }
    if (hasFocus()) {
        painter.setPen(QPen(theme().accent, 2));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(rect().adjusted(1, 1, -1, -1));
    }
}

void TimelineCanvas::describeForReaders()
{
    QString text = m_model->empty()
        ? tr("empty")
        : tr("%1 rows of %2 devices").arg(m_model->rows().size()).arg(m_model->groups().size());
    if (m_picked)
        text += QStringLiteral("; ") + sliceText(*m_model, *m_picked).replace(QLatin1Char('\n'), QStringLiteral("; "));
    if (text == accessibleDescription())
        return;
    setAccessibleDescription(text);
    QAccessibleEvent changed(this, QAccessible::DescriptionChanged);
    QAccessible::updateAccessibility(&changed);
}

} // namespace planloom::ui
