// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/memory/measured_times.h"
#include "engine/plan/plan.h"

#include <cstdint>

namespace planloom::compile {

/// What the memory policies of a plan do in a step that its tasks do not show; all devices together.
struct MemoryFigures {
    double stallSeconds = 0;     ///< that operators waited for copies, on the clock by which the policies decide
    std::int64_t fragmented = 0; ///< times that there was room enough for a tensor, but in no single hole
};

/// Walks the policies of @p plan as compilePlan() does with @p times (Options::times); zeros where no stage has one.
/// Errors: those of compilePlan() but for orders that cannot run. Cost: that of the walks.
Result<MemoryFigures> memoryFigures(const plan::Plan &plan, const plan::Subject &subject,
                                    const memory::RunTimes *times = nullptr);

} // namespace planloom::compile
