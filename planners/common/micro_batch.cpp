// SPDX-License-Identifier: Apache-2.0
#include "planners/common/micro_batch.h"

#include <algorithm>
#include <cmath>

namespace planloom::planners {
namespace {

const graph::Op *profiledOp(const graph::Graph &graph)
{
    const auto ops = graph.ops();
    const auto found = std::find_if(ops.begin(), ops.end(),
                                    [](const graph::Op &op) { return op.traits().cost == graph::CostClass::Measured; });
    return found == ops.end() ? nullptr : &*found;
}

} // namespace

std::vector<std::int64_t> microBatchChoices(const Problem &problem)
{
    if (problem.microBatch)
        return {*problem.microBatch};
    if (const graph::Op *op = profiledOp(*problem.subject.graph)) {
        const double batch = std::clamp(op->number("profile_batch", 1), 1.0, static_cast<double>(problem.globalBatch));
        return {std::llround(batch)};
    }
    std::vector<std::int64_t> choices;
    for (std::int64_t samples = 1; samples <= std::min(problem.globalBatch, kMostMicroBatch); samples *= 2)
        choices.push_back(samples);
    return choices;
}

} // namespace planloom::planners
