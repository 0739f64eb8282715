// SPDX-License-Identifier: Apache-2.0
#include "engine/program/site.h"

#include <algorithm>
#include <cmath>

namespace planloom::program {
namespace {

/// The parts of @p slice that each replica of stage @p other works on.
std::vector<Message> messages(const Compilation &all, std::size_t other, plan::SampleRange slice, std::int64_t microBatchSize)
{
    std::vector<Message> parts;
    const plan::Stage &stage = all.plan.stages[other];
    for (std::size_t replica = 0; replica < stage.devices.size(); ++replica) {
        const plan::SampleRange theirs = plan::replicaRange(stage, replica, microBatchSize);
        const std::int64_t begin = std::max(slice.begin, theirs.begin);
        const std::int64_t end = std::min(slice.begin + slice.size, theirs.begin + theirs.size);
        if (begin < end)
            parts.push_back({all.ranksOf(other)[replica], {begin, end - begin}});
    }
    return parts;
}

void fillSlices(const Compilation &all, const RankSite &site, Body &body)
{
    for (std::int64_t m = 0; m < all.plan.microBatches; ++m) {
        const plan::SampleRange batch = plan::microBatchRange(all.plan, m);
        const plan::SampleRange slice = plan::replicaRange(all.stageOf(site), site.replica, batch.size);
        body.slices.push_back({batch.begin + slice.begin, slice.size});
        body.incoming.push_back(all.isFirst(site) ? std::vector<Message>{} : messages(all, site.stage.index() - 1, slice, batch.size));
        body.outgoing.push_back(all.isLast(site) ? std::vector<Message>{} : messages(all, site.stage.index() + 1, slice, batch.size));
    }
}

void fillPlaces(const StageModel &model, const StageLayout &layout, const PersistentLayout &persistent, Body &body)
{
    body.training = *model.training();
    body.forwardPlaces = layout.forwardPlaces;
    body.backwardPlaces = layout.backwardPlaces;
    body.parameterOffsets = persistent.parameters;
    body.gradientOffsets = persistent.gradients;
    body.stateOffsets = persistent.states;
    const auto placeHeld = [&body](const std::vector<HeldTensor> &tensors, const std::vector<std::int64_t> &offsets) {
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            body.forwardPlaces[tensors[i].id.index()].offset = offsets[i];
            body.backwardPlaces[tensors[i].id.index()].offset = offsets[i];
        }
    };
    placeHeld(model.holdings().parameters, persistent.parameters);
    placeHeld(model.holdings().others, persistent.others);
}

} // namespace

void buildBody(Compilation &all, RankId id, bool complete)
{
    const RankSite &site = all.sites[id.index()];
    StageModel &model = all.stages[site.stage.index()];
    const double samples = all.samples.largestSlice(site);
    const StageLayout &layout = model.layout(samples);
    const PersistentLayout persistent = layoutPersistent(model.holdings(), id, all.plan.optimizer.stateTensors(), all.program.buckets);
    Body body;
    body.stage = site.stage;
    body.rank = id;
    body.replica = site.replica;
    body.recompute = all.stageOf(site).recompute;
    body.maxSamples = static_cast<std::int64_t>(std::ceil(samples));
    body.slotTable = site.slotPlan.slotTable;
    Rank &rank = all.program.ranks[id.index()];
    rank.persistentBytes = persistent.bytes;
    for (std::size_t area = 0; area < kAreas; ++area) {
        Pool pool;
        pool.begin = rank.arenaBytes;
        pool.slotBytes = area == static_cast<std::size_t>(Area::Persistent) ? persistent.bytes : layout.slotBytes[area];
        pool.count = pool.slotBytes > 0 ? site.slotPlan.counts[area] : 0;
        rank.arenaBytes += pool.bytes();
        body.pools.push_back(pool);
    }
    if (complete) {
        fillPlaces(model, layout, persistent, body);
        fillSlices(all, site, body);
    }
    rank.bodies.push_back(static_cast<std::int32_t>(all.program.bodies.size()));
    all.program.bodies.push_back(std::move(body));
}

} // namespace planloom::program
