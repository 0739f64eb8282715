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

trace::Trace wholeMeasured(const StudioState &state)
{
    trace::Trace whole = state.measured();
    if (!whole.records.empty() || !state.measuredIndex())
        return whole;
    const trace::LevelOfDetail &lod = state.measuredIndex()->lod();
    whole.records.reserve(lod.size());
    for (const trace::Row &row : lod.rows())
        for (std::size_t slice = 0; slice < row.size(); ++slice)
            whole.records.push_back(row.record(slice));
    whole.sort();
    return whole;
}

} // namespace planloom::ui
