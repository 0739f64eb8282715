// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_canvas.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QCursor>
#include <QPainter>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

constexpr double kSliceMargin = 1; // of a slice, left and right of it when it fills the view
constexpr std::size_t kHistoryLimit = 64;
constexpr double kFollowShare = 2.2; // of a step, shown while following

} // namespace

TimelineCanvas::TimelineCanvas(TimelineModel *model, QWidget *parent) : QWidget(parent), m_model(model)
{
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    setMinimumSize(320, 120);
    setAttribute(Qt::WA_OpaquePaintEvent);
    setAccessibleName(tr("Timeline"));
    describeForReaders();
}

QRect TimelineCanvas::rowsArea() const
{
    return {TimelinePainter::kGutter, TimelinePainter::kRuler, std::max(width() - TimelinePainter::kGutter, 1),
            std::max(height() - TimelinePainter::kRuler, 1)};
}

int TimelineCanvas::rowsHeight() const { return rowsArea().height(); }

double TimelineCanvas::timeAt(int x) const { return m_axis.toTime(x - rowsArea().x()); }

void TimelineCanvas::modelChanged(bool keepView)
{
    const bool wasAll = m_axis.showsAll();
    m_axis.setPixels(rowsArea().width());
    m_axis.setBounds(m_model->begin(), m_model->end());
    m_hover.reset();
    m_totals.reset();
    m_picked.reset();
    if (!m_selection.task.empty())
        m_picked = m_model->find(m_selection.task, m_selectedDevice);
    if (m_follow) {
        const int last = m_model->steps() - 1;
        if (last >= 0) {
            const trace::Window newest = m_model->step(last);
            const double length = static_cast<double>(m_model->step(std::max(last - 1, 0)).end
                                                      - m_model->step(std::max(last - 1, 0)).begin);
            m_axis.show(static_cast<double>(newest.end) - kFollowShare * length, static_cast<double>(newest.end), 0);
        }
    } else if (!keepView || wasAll) {
        m_axis.showAll();
    }
    describeForReaders();
    changedView();
}

void TimelineCanvas::setSelection(const Selection &selection, const std::string &device)
{
    m_selection = selection;
    m_selectedDevice = device;
    m_range = selection.time;
    if (selection.task.empty()) {
        m_picked.reset();
    } else if (!m_picked || m_model->task(*m_picked).id != selection.task) {
        m_picked = m_model->find(selection.task, device);
        if (m_picked)
            reveal(*m_picked);
    }
    describeForReaders();
    invalidate();
}

void TimelineCanvas::invalidate()
{
    m_stale = true;
    update();
}

void TimelineCanvas::changedView()
{
    clampScroll();
    invalidate();
    Q_EMIT viewChanged();
}

void TimelineCanvas::clampScroll()
{
    m_scroll = std::clamp(m_scroll, 0, std::max(0, m_model->contentHeight() - rowsArea().height()));
}

void TimelineCanvas::remember()
{
    if (!m_history.empty() && m_history.back() == m_axis)
        return;
    m_history.push_back(m_axis);
    if (m_history.size() > kHistoryLimit)
        m_history.erase(m_history.begin());
}

void TimelineCanvas::userMoved()
{
    m_follow = false;
    changedView();
}

// --- user actions

void TimelineCanvas::setScroll(int y)
{
    if (y == m_scroll)
        return;
    m_scroll = y;
    changedView();
}

void TimelineCanvas::setViewBegin(double begin)
{
    m_axis.pan((begin - m_axis.begin()) / m_axis.nanosecondsPerPixel());
    userMoved();
}

void TimelineCanvas::setFollow(bool follow)
{
    m_follow = follow && m_model->hasMeasured();
    modelChanged(true);
}

void TimelineCanvas::showAll()
{
    remember();
    m_axis.showAll();
    userMoved();
}

void TimelineCanvas::zoomBy(double factor)
{
    remember();
    m_axis.zoom(factor, rowsArea().width() / 2.0);
    userMoved();
}

void TimelineCanvas::showStep(int step)
{
    if (step < 0 || step >= m_model->steps())
        return;
    remember();
    const trace::Window window = m_model->round(step).window;
    m_axis.show(static_cast<double>(window.begin), static_cast<double>(window.end));
    userMoved();
}

void TimelineCanvas::fitSlice(const TimelineModel::Slice &slice)
{
    remember();
    const trace::Record record = m_model->record(slice);
    m_axis.show(static_cast<double>(record.start), static_cast<double>(record.start + record.duration), kSliceMargin);
    userMoved();
}

void TimelineCanvas::focusSelection()
{
    const TimeAxis before = m_axis;
    if (m_range) {
        m_axis.show(static_cast<double>(m_range->begin), static_cast<double>(m_range->end));
    } else if (m_picked) {
        const trace::Record record = m_model->record(*m_picked);
        m_axis.show(static_cast<double>(record.start), static_cast<double>(record.start + record.duration),
                    kSliceMargin);
    } else {
        m_axis.showAll();
    }
    if (before == m_axis)
        return showAll(); // a second F
    m_history.push_back(before);
    userMoved();
}

void TimelineCanvas::previousView()
{
    if (m_history.empty())
        return;
    const TimeAxis before = m_history.back();
    m_history.pop_back();
    m_axis.show(before.begin(), before.end(), 0);
    userMoved();
}

void TimelineCanvas::reveal(const TimelineModel::Slice &slice)
{
    const trace::Record record = m_model->record(slice);
    const auto begin = static_cast<double>(record.start);
    const auto end = static_cast<double>(record.start + record.duration);
    if (end < m_axis.begin() || begin > m_axis.end())
        m_axis.show((begin + end) / 2 - m_axis.span() / 2, (begin + end) / 2 + m_axis.span() / 2, 0);
    if (const auto row = m_model->rowOf(slice)) {
        const auto &at = m_model->rows()[*row];
        if (at.y < m_scroll)
            m_scroll = at.y - TimelineModel::kGroupGap;
        else if (at.y + at.height > m_scroll + rowsArea().height())
            m_scroll = at.y + at.height + TimelineModel::kGroupGap - rowsArea().height();
    }
    changedView();
}

void TimelineCanvas::addMark(const QString &name)
{
    const QPoint mouse = mapFromGlobal(QCursor::pos());
    double time = (m_axis.begin() + m_axis.end()) / 2;
    if (rowsArea().contains(mouse))
        time = timeAt(mouse.x());
    else if (m_picked)
        time = static_cast<double>(m_model->record(*m_picked).start);
    m_marks.push_back({std::llround(time), name.isEmpty() ? QString::number(m_marks.size() + 1) : name});
    update();
}

void TimelineCanvas::setEmptyText(const QString &text)
{
    if (text == m_emptyText)
        return;
    m_emptyText = text;
    update();
}

void TimelineCanvas::removeMark()
{
    if (m_marks.empty())
        return;
    const double centre =
        m_picked ? static_cast<double>(m_model->record(*m_picked).start) : (m_axis.begin() + m_axis.end()) / 2;
    const auto nearest = std::min_element(m_marks.begin(), m_marks.end(), [centre](const Mark &a, const Mark &b) {
        return std::abs(static_cast<double>(a.time) - centre) < std::abs(static_cast<double>(b.time) - centre);
    });
    m_marks.erase(nearest);
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
        next = m_model->sliceAt(0, m_axis.begin(), m_axis.span());
    if (!next)
        return;
    pick(next);
    reveal(*next);
}

void TimelineCanvas::clear()
{
    m_range.reset();
    m_drag = Drag::None;
    Q_EMIT rangePicked(std::nullopt);
    pick(std::nullopt);
    update();
}

// --- painting

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
    made.axis = m_axis;
    made.scroll = m_scroll;
    made.area = rowsArea();
    made.selectedTask = m_selection.task;
    made.selectedDevice = m_selectedDevice;
    made.selectedStage = m_selection.stage.value;
    return made;
}

QSize TimelineCanvas::wholeSize() const
{
    return {width(), std::min(TimelinePainter::kRuler + m_model->contentHeight(), kMostPixels)};
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
        paintOverlay(painter);
    }
    if (hasFocus()) {
        painter.setPen(QPen(theme().accent, 2));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(rect().adjusted(1, 1, -1, -1));
    }
}

void TimelineCanvas::paintOverlay(QPainter &painter)
{
    const QRect rows = rowsArea();
    painter.setClipRect(QRect(rows.x(), 0, rows.width(), height()));
    paintRange(painter, rows);
    paintMarks(painter, rows);
    if (m_hover) {
        painter.setPen(QPen(theme().cursor, 1));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(boxOf(*m_hover).adjusted(0, 0, -1, -1));
        if (const auto other = m_model->counterpart(*m_hover)) {
            painter.setPen(QPen(theme().cursor, 1, Qt::DashLine));
            painter.drawRect(boxOf(*other).adjusted(0, 0, -1, -1));
        }
    }
    painter.setClipping(false);
}

bool TimelineCanvas::addTotals()
{
    constexpr std::size_t kRowsAtOnce = 20'000; // about 5 ms
    const std::size_t rows = m_model->rows().size();
    if (!m_totals || !(m_totals->range == *m_range) || m_totals->offset != m_model->offset() || m_totals->rows != rows)
        m_totals = RangeTotals{*m_range, m_model->offset(), rows, 0, {}};
    const TimelineModel::Range piece{m_totals->next, std::min(m_totals->next + kRowsAtOnce, rows)};
    for (const bool measured : {false, true}) {
        const auto more = m_model->totals({m_range->begin, m_range->end}, measured, piece);
        m_totals->totals[measured ? 1 : 0].count += more.count;
        m_totals->totals[measured ? 1 : 0].busy += more.busy;
    }
    m_totals->next = piece.second;
    return m_totals->next == rows;
}

void TimelineCanvas::paintRange(QPainter &painter, const QRect &rows)
{
    if (!m_range)
        return;
    const int from = rows.x() + static_cast<int>(m_axis.toPixel(static_cast<double>(m_range->begin)));
    const int to = rows.x() + static_cast<int>(m_axis.toPixel(static_cast<double>(m_range->end)));
    QColor veil = theme().accent;
    veil.setAlpha(48);
    painter.fillRect(QRect(from, 0, std::max(to - from, 1), height()), veil);
    painter.fillRect(QRect(from, 0, 1, height()), theme().accent);
    painter.fillRect(QRect(to, 0, 1, height()), theme().accent);

    if (!addTotals())
        QMetaObject::invokeMethod(
            this, [this] { update(); }, Qt::QueuedConnection);
    QString text = QStringLiteral("Δt %1").arg(nanosecondsText(m_range->length()));
    for (const bool measured : {false, true}) {
        const auto &totals = m_totals->totals[measured ? 1 : 0];
        if (totals.count > 0)
            text += tr("\n%1: %2 slices, sum %3")
                        .arg(tr(m_model->clockName(measured)))
                        .arg(totals.count)
                        .arg(nanosecondsText(totals.busy));
    }
    const QRect bounds = painter.fontMetrics().boundingRect(QRect(0, 0, 400, 200), Qt::AlignLeft, text);
    QRect box(0, 0, bounds.width() + 16, bounds.height() + 10);
    box.moveTopLeft(
        {std::clamp((from + to - box.width()) / 2, rows.x() + 4, std::max(rows.x() + 4, rows.right() - box.width())),
         rows.y() + 6});
    painter.fillRect(box, theme().base);
    painter.setPen(theme().border);
    painter.drawRect(box);
    painter.setPen(theme().text);
    painter.drawText(box, Qt::AlignCenter, text);
}

void TimelineCanvas::paintMarks(QPainter &painter, const QRect &rows)
{
    painter.setPen(theme().text);
    for (const Mark &mark : m_marks) {
        const int x = rows.x() + static_cast<int>(m_axis.toPixel(static_cast<double>(mark.time)));
        painter.fillRect(QRect(x, 0, 1, height()), theme().error);
        painter.fillRect(QRect(x, 0, painter.fontMetrics().horizontalAdvance(mark.name) + 8, 14), theme().errorBase);
        painter.setPen(theme().error);
        painter.drawText(QPoint(x + 4, 11), mark.name);
    }
}

QRect TimelineCanvas::boxOf(const TimelineModel::Slice &slice) const
{
    const auto row = m_model->rowOf(slice);
    if (!row)
        return {};
    const trace::Record record = m_model->record(slice);
    const QRect rows = rowsArea();
    const auto pixel = [&](std::int64_t time) {
        return rows.x()
            + static_cast<int>(std::floor(std::clamp(m_axis.toPixel(static_cast<double>(time)), -1e6, 1e6)));
    };
    const int x = pixel(record.start);
    const int right = std::max(pixel(record.start + record.duration), x + 1);
    const auto &at = m_model->rows()[*row];
    return {x, rows.y() + at.y - m_scroll, right - x, at.height};
}

} // namespace planloom::ui
