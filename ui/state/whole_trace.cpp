// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/whole_trace.h"

#include "ui/state/studio_state.h"

#include <vector>

namespace planloom::ui {

void releaseRecords(trace::Trace &trace, const trace::Index &index)
{
    if (trace.details.empty() && index.lod().shortened() == 0)
        std::vector<trace::Record>().swap(trace.records); // with its room
}

trace::Trace wholeTrace(trace::Trace kept, const trace::Index &index)
{
    if (!kept.records.empty())
        return kept;
    const trace::LevelOfDetail &lod = index.lod();
    kept.records.reserve(lod.size());
    for (const trace::Row &row : lod.rows())
        for (std::size_t slice = 0; slice < row.size(); ++slice)
            kept.records.push_back(row.record(slice));
    kept.sort();
    return kept;
}

trace::Trace wholeMeasured(const StudioState &state)
{
    return state.measuredIndex() ? wholeTrace(state.measured(), *state.measuredIndex()) : state.measured();
}

} // namespace planloom::ui
