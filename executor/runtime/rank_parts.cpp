// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/rank_parts.h"

#include <algorithm>
#include <set>

namespace planloom::runtime {

Status RankParts::prepare()
{
    Result<Arena> made = Arena::allocate(device, own().arenaBytes);
    if (!made)
        return made.error();
    arena = std::move(*made);
    if (const Status hosted = host.prepare(program, own(), device); !hosted)
        return hosted;
    // Samples are copied ahead on the lane for copies in. Streams that are not made leave theirs to others: a GPU runs
    // few of them at once.
    std::set<program::Lane> used{program::Lane::Compute, program::Lane::CopyIn};
    for (const TaskId task : own().tasks)
        used.insert(program.task(task).lane);
    for (int lane = 0; lane < program::kLanes; ++lane) {
        if (!used.contains(static_cast<program::Lane>(lane))) {
            queues.emplace_back();
            continue;
        }
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

double RankParts::ownScale(BodyId body, TeamId inside) const
{
    std::int64_t samples = 0;
    const auto count = [&](const program::Body &of) {
        for (const plan::SampleRange &slice : of.slices)
            samples += slice.size;
    };
    if (!inside.valid())
        count(program.body(body));
    for (std::size_t b = 0; inside.valid() && b < program.bodies.size(); ++b) {
        const std::vector<RankId> &ranks = program.team(inside).ranks;
        if (const program::Body &of = program.bodies[b];
            of.stage == program.body(body).stage && std::binary_search(ranks.begin(), ranks.end(), of.rank))
            count(of);
    }
    return samples == 0 ? 1 : static_cast<double>(program.globalBatch) / static_cast<double>(samples);
}

} // namespace planloom::runtime
