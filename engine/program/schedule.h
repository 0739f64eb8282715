// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/plan/plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::program {

/// One compute pass of a stage over a micro-batch.
struct PassStep {
    bool forward = true;
    std::int32_t microBatch = 0;
    friend bool operator==(const PassStep &, const PassStep &) = default;
};

/// Early backward scheduling (DAPPLE §5.3): `depth` forwards, then one backward and one forward in turn until the forwards run out,
/// then the remaining backwards. depth == microBatches is GPipe's order.
std::vector<PassStep> earlyBackwardOrder(std::int64_t microBatches, int depth);

/// The order of stage @p stage's replica on @p device: by kind, or as Schedule::order lists it. Error (BadInput): a task id that
/// is not one of this stage's, or one that is missing, repeated, or a backward before its forward.
Result<std::vector<PassStep>> passOrder(const plan::Plan &plan, StageId stage, const std::string &device);

/// Forwards that are in flight (begun, their backward not ended) at most.
int maxInFlight(const std::vector<PassStep> &order);

} // namespace planloom::program
