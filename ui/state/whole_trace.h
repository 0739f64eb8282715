// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/trace/index.h"
#include "engine/trace/trace.h"

#include <memory>

namespace planloom::ui {

class StudioState;

/// Frees the records of @p trace, 32 bytes each, where @p index has all that they say: not where details belong to
/// them, nor where some were cut to fit their rows. Its tables stay.
void releaseRecords(trace::Trace &trace, const trace::Index &index);

/// What releaseRecords() left, with all of its records again, made anew from its index. Cost: O(n log n), and 32 bytes
/// a record.
trace::Trace wholeTrace(trace::Trace kept, const trace::Index &index);
/// StudioState::measured() likewise.
trace::Trace wholeMeasured(const StudioState &state);

} // namespace planloom::ui
