// SPDX-License-Identifier: GPL-3.0-or-later
// The part of TimelineView for a trace that grows.
#include "ui/state/freed_elsewhere.h"
#include "ui/timeline/timeline_view.h"

#include <functional>
#include <memory>
#include <span>

namespace planloom::ui {

void TimelineView::onMeasuredAppended(std::size_t first)
{
    const bool wasEmpty = !m_model.hasMeasured();
    const int anchor = m_model.anchorStep();
    const bool newRows = m_model.appendMeasured(state()->measured(), first);
    if (m_autoStep)
        m_model.setAnchorStep(m_model.lastWholeRound()); // the newest steps are going on
    refreshStepBox();
    if (wasEmpty && state()->run().active())
        m_canvas->setFollow(true);
    else
        m_canvas->modelChanged(true);
    if (newRows || anchor != m_model.anchorStep())
        refreshContents(); // places of slices may be others
    else
        refreshFooter();
}

/// A run that reports more than is kept has let go of its oldest records. Those that are left are indexed beside the
/// UI thread; until then the index of before is shown and goes on growing. False: the trace is another one.
bool TimelineView::indexRest()
{
    const trace::Trace &measured = state()->measured();
    if (state()->measuredFile() || !m_model.isRestOf(measured))
        return false;
    const auto trace = state()->sharedMeasured();
    const auto tables = std::shared_ptr<const trace::Tables>(trace, trace.get());
    indexFrom([tables] { return freedElsewhere(trace::Index(tables)); }, 0);
    return true;
}

/// Adds the records from @p first on to the index that @p begin makes. What has come in the meantime is added so, too,
/// until it is little enough for one event.
void TimelineView::indexFrom(const std::function<std::shared_ptr<trace::Index>()> &begin, std::size_t first)
{
    constexpr std::size_t kAtOnce = std::size_t{1} << 15; // about 5 ms
    const auto trace = state()->sharedMeasured();
    const auto records = std::span(trace->records).subspan(first);
    m_reindex.ask([this, begin, trace, records, count = first + records.size()](Progress &) -> Job::Completion {
        const auto index = begin();
        index->append(records);
        return [this, index, count] {
            if (state()->measured().records.size() > count + kAtOnce)
                return indexFrom([index] { return index; }, count);
            m_model.replaceGrowing(state()->measured(), index, count);
            if (m_autoStep)
                m_model.setAnchorStep(m_model.lastWholeRound());
            refreshStepBox();
            m_canvas->modelChanged(true);
            refreshContents();
        };
    });
}

} // namespace planloom::ui
