// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_viewport.h"

#include "ui/timeline/timeline_painter.h"

#include <algorithm>

namespace planloom::ui {

namespace {

constexpr double kSliceMargin = 1; // of a slice, left and right of it when it fills the view
constexpr std::size_t kHistoryLimit = 64;
constexpr double kFollowShare = 2.2;  // of a step, shown while following
constexpr double kHoverTolerance = 3; // pixels around a slice too narrow to hit

} // namespace

QRect TimelineViewport::rows() const
{
    return {TimelinePainter::kGutter, TimelinePainter::kRuler, std::max(m_size.width() - TimelinePainter::kGutter, 1),
            std::max(m_size.height() - TimelinePainter::kRuler, 1)};
}

std::optional<std::size_t> TimelineViewport::rowAt(int y) const
{
    const int at = y - rows().y();
    return m_model.layout().rowAt(at < pinned() ? at : at + m_scroll);
}

int TimelineViewport::pinned() const
{
    constexpr double kMostOfHeight = 0.6;
    const int height = m_model.layout().pinnedHeight();
    return height <= kMostOfHeight * rows().height() ? height : 0;
}

TimelineScene TimelineViewport::scene() const
{
    TimelineScene made;
    made.model = &m_model;
    made.axis = m_axis;
    made.scroll = m_scroll;
    made.pinned = pinned();
    made.area = rows();
    return made;
}

std::optional<TimelineModel::Slice> TimelineViewport::sliceAt(const QPoint &at) const
{
    if (!rows().contains(at))
        return std::nullopt;
    const auto row = rowAt(at.y());
    if (!row)
        return std::nullopt;
    return m_model.sliceAt(*row, timeAt(at.x()), kHoverTolerance * m_axis.nanosecondsPerPixel());
}

QRect TimelineViewport::boxOf(const TimelineModel::Slice &slice) const { return scene().boxOf(slice); }

void TimelineViewport::resize(QSize widget)
{
    const bool all = m_axis.showsAll();
    m_size = widget;
    m_axis.setPixels(rows().width());
    if (all)
        m_axis.showAll();
    changed();
}

void TimelineViewport::modelChanged(QSize widget, bool keepView)
{
    const bool wasAll = m_axis.showsAll();
    m_size = widget;
    m_axis.setPixels(rows().width());
    m_axis.setBounds(m_model.begin(), m_model.end());
    if (m_follow) {
        const int last = m_model.steps() - 1;
        if (last >= 0) {
            const trace::Window newest = m_model.step(last);
            const trace::Window whole = m_model.step(m_model.hasStep(last - 1) ? last - 1 : last);
            const auto length = static_cast<double>(whole.end - whole.begin);
            m_axis.show(static_cast<double>(newest.end) - kFollowShare * length, static_cast<double>(newest.end), 0);
        }
    } else if (!keepView || wasAll) {
        m_axis.showAll();
    }
    changed();
}

void TimelineViewport::setScroll(int y)
{
    if (y == m_scroll)
        return;
    m_scroll = y;
    changed();
}

void TimelineViewport::scrollBy(int pixels)
{
    setScroll(std::clamp(m_scroll + pixels, 0, std::max(0, m_model.layout().height() - rows().height())));
}

void TimelineViewport::setBegin(double begin) { pan((begin - m_axis.begin()) / m_axis.nanosecondsPerPixel()); }

void TimelineViewport::pan(double pixels)
{
    m_axis.pan(pixels);
    moved();
}

void TimelineViewport::drag(QPoint by)
{
    m_axis.pan(-by.x());
    m_scroll -= by.y();
    moved();
}

void TimelineViewport::zoomBy(double factor)
{
    remember();
    m_axis.zoom(factor, rows().width() / 2.0);
    moved();
}

void TimelineViewport::zoomAt(double factor, double x)
{
    m_axis.zoom(factor, x - rows().x());
    moved();
}

void TimelineViewport::showAll()
{
    remember();
    m_axis.showAll();
    moved();
}

void TimelineViewport::showRange(double begin, double end)
{
    remember();
    m_axis.show(begin, end, 0);
    moved();
}

void TimelineViewport::showStep(int step)
{
    if (!m_model.hasStep(step))
        return;
    remember();
    const trace::Window window = m_model.round(step).window;
    m_axis.show(static_cast<double>(window.begin), static_cast<double>(window.end));
    moved();
}

void TimelineViewport::show(const TimelineModel::Slice &slice)
{
    const trace::Record record = m_model.record(slice);
    m_axis.show(static_cast<double>(record.start), static_cast<double>(record.start + record.duration), kSliceMargin);
}

void TimelineViewport::fit(const TimelineModel::Slice &slice)
{
    remember();
    show(slice);
    moved();
}

void TimelineViewport::focus(const std::optional<TimeRange> &range, const std::optional<TimelineModel::Slice> &slice)
{
    const TimeAxis before = m_axis;
    if (range)
        m_axis.show(static_cast<double>(range->begin), static_cast<double>(range->end));
    else if (slice)
        show(*slice);
    else
        m_axis.showAll();
    if (before == m_axis)
        return showAll(); // a second time
    m_history.push_back(before);
    moved();
}

void TimelineViewport::reveal(const TimelineModel::Slice &slice)
{
    const trace::Record record = m_model.record(slice);
    const auto begin = static_cast<double>(record.start);
    const auto end = static_cast<double>(record.start + record.duration);
    if (end < m_axis.begin() || begin > m_axis.end())
        m_axis.show((begin + end) / 2 - m_axis.span() / 2, (begin + end) / 2 + m_axis.span() / 2, 0);
    if (const auto row = m_model.rowOf(slice)) {
        const auto &at = m_model.rows()[*row];
        const int top = pinned();
        if (at.y < top)
            return changed(); // it does not scroll
        if (at.y < m_scroll + top)
            m_scroll = at.y - top - TimelineRows::kGroupGap;
        else if (at.y + at.height > m_scroll + rows().height())
            m_scroll = at.y + at.height + TimelineRows::kGroupGap - rows().height();
    }
    changed();
}

void TimelineViewport::remember()
{
    if (!m_history.empty() && m_history.back() == m_axis)
        return;
    m_history.push_back(m_axis);
    if (m_history.size() > kHistoryLimit)
        m_history.erase(m_history.begin());
}

void TimelineViewport::back()
{
    if (m_history.empty())
        return;
    const TimeAxis before = m_history.back();
    m_history.pop_back();
    m_axis.show(before.begin(), before.end(), 0);
    moved();
}

void TimelineViewport::moved()
{
    m_follow = false;
    changed();
}

void TimelineViewport::changed()
{
    m_scroll = std::clamp(m_scroll, 0, std::max(0, m_model.layout().height() - rows().height()));
    m_changed();
}

} // namespace planloom::ui
