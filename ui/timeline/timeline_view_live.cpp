// SPDX-License-Identifier: GPL-3.0-or-later
// The part of TimelineView for a trace that grows.
#include "ui/state/freed_elsewhere.h"
#include "ui/timeline/timeline_view.h"

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
    const auto records = std::make_shared<const std::vector<trace::Record>>(measured.records);
    const auto tables = std::make_shared<const trace::Tables>(measured);
    m_reindex.ask([this, records, tables](Progress &) -> Job::Completion {
        const auto index = freedElsewhere(trace::Index(tables));
        index->append(*records);
        return [this, index, count = records->size()] {
            m_model.replaceGrowing(state()->measured(), index, count);
            if (m_autoStep)
                m_model.setAnchorStep(m_model.lastWholeRound());
            refreshStepBox();
            m_canvas->modelChanged(true);
            refreshContents();
        };
    });
    return true;
}

} // namespace planloom::ui
