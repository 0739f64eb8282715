// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/rank_parts.h"

namespace planloom::runtime {

Status RankParts::prepare()
{
    Result<Arena> made = Arena::allocate(device, own().arenaBytes);
    if (!made)
        return made.error();
    arena = std::move(*made);
    for (int lane = 0; lane < program::kLanes; ++lane) {
        auto queue = device.makeQueue();
        if (!queue)
            return queue.error();
        queues.push_back(std::move(*queue));
    }
    auto drained = device.makeEvent();
    if (!drained)
        return drained.error();
    event = std::move(*drained);
    return {};
}

double RankParts::ownScale(BodyId body) const
{
    std::int64_t samples = 0;
    for (const plan::SampleRange &slice : program.body(body).slices)
        samples += slice.size;
    return samples == 0 ? 1 : static_cast<double>(program.globalBatch) / static_cast<double>(samples);
}

} // namespace planloom::runtime
