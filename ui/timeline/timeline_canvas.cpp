// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_canvas.h"

#include "ui/theme/theme.h"
#include "ui/timeline/slice_text.h"

#include <QAccessible>
#include <QCursor>
#include <QElapsedTimer>
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
    findLinks();
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
    findLinks();
    describeForReaders();
    update();
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

void TimelineCanvas::setLateMarks(std::vector<TimelineOverlay::Mark> marks)
{
    m_overlay.setLateMarks(std::move(marks));
    update();
}

void TimelineCanvas::showSlice(const TimelineModel::Slice &slice)
{
    pick(slice);
    m_viewport.reveal(slice);
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
    findLinks(); // the other clock's slice of the same task is no other selection
    update();
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

void TimelineCanvas::findLinks() { m_links = m_picked ? TaskLinks::of(*m_model, *m_picked) : TaskLinks(); }

void TimelineCanvas::stepAlongLinks(int by)
{
    if (!m_picked)
        return step(by, false);
    if (!m_model->knowsCauses(*m_picked))
        return Q_EMIT refused(tr("The trace does not say what its tasks waited for; open the plan that made it"));
    const auto next = by > 0 ? nextEffect(*m_model, *m_picked) : causeOfStart(*m_model, *m_picked);
    if (!next)
        return Q_EMIT refused(by > 0 ? tr("Nothing in the trace waits for this task")
                                     : tr("This task waited for nothing in the trace"));
    pick(next);
    m_viewport.reveal(*next);
}

void TimelineCanvas::setPaths(std::vector<TimelinePath> paths)
{
    if (paths.empty() && m_paths.empty())
        return;
    m_paths = std::move(paths);
    invalidate();
}

void TimelineCanvas::choose(const RowChoices &choices)
{
    if (choices == m_model->choices())
        return;
    m_model->setChoices(choices);
    modelChanged(true);
    Q_EMIT rowsChosen();
}

void TimelineCanvas::showCommunication(bool show)
{
    RowChoices choices = m_model->choices();
    choices.communication = show;
    choose(choices);
}

std::vector<RowCommand> TimelineCanvas::rowCommandsHere() const
{
    const QPoint mouse = mapFromGlobal(QCursor::pos());
    std::optional<std::size_t> row;
    if (rect().contains(mouse) && underMouse())
        row = m_viewport.rowAt(mouse.y());
    if (!row && m_picked)
        row = m_model->rowOf(*m_picked);
    return rowCommands(*m_model, row);
}

void TimelineCanvas::useRowCommand(RowCommand::What what)
{
    for (const RowCommand &command : rowCommandsHere())
        if (command.what == what)
            return choose(command.after);
    Q_EMIT refused(what == RowCommand::What::ShowAll ? tr("All rows are shown")
                                                     : tr("Point at a row, or select a slice, first"));
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
    const TimelineScene still = scene();
    m_painter.paint(painter, still, font());
    LinkPainter(painter, still).paintPaths(m_paths);
    m_stale = false;
}

/// What changes with a click, over what does not.
void TimelineCanvas::paintSelection(QPainter &painter, const TimelineScene &of)
{
    m_painter.paintSelection(painter, of);
    if (m_picked)
        LinkPainter(painter, of).paintLinks(*m_picked, m_links);
}

TimelineScene TimelineCanvas::scene() const
{
    TimelineScene made = m_viewport.scene();
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
    whole.scroll = whole.pinned = 0;
    whole.area.setHeight(wholeSize().height() - TimelinePainter::kRuler);
    m_painter.paint(painter, whole, font());
    LinkPainter(painter, whole).paintPaths(m_paths);
    paintSelection(painter, whole);
}

void TimelineCanvas::showFrameTimes(bool show)
{
    m_showsFrames = show;
    m_frames.clear();
    update();
}

void TimelineCanvas::paintEvent(QPaintEvent *)
{
    QElapsedTimer timer;
    timer.start();
    QPainter painter(this);
    paintContent(painter);
    if (!m_showsFrames)
        return;
    constexpr double kSeconds = 1e-9; // of a nanosecond
    m_frames.add(static_cast<double>(timer.nsecsElapsed()) * kSeconds);
    m_frames.paint(painter, rect());
}

void TimelineCanvas::paintContent(QPainter &painter)
{
    if (m_stale || m_cache.isNull())
        renderCache();
    if (m_model->empty()) {
        painter.fillRect(rect(), theme().base);
        painter.setPen(theme().dimText);
        painter.drawText(rect(), Qt::AlignCenter, m_emptyText);
    } else {
        painter.drawPixmap(0, 0, m_cache);
        paintSelection(painter, scene());
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
    if (m_picked && m_model->knowsCauses(*m_picked))
        text += tr("; %1 causes, %2 effects").arg(m_links.causeCount).arg(m_links.effectCount);
    if (text == accessibleDescription())
        return;
    setAccessibleDescription(text);
    QAccessibleEvent changed(this, QAccessible::DescriptionChanged);
    QAccessible::updateAccessibility(&changed);
}

} // namespace planloom::ui
