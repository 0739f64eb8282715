// SPDX-License-Identifier: Apache-2.0
#include "engine/program/site.h"

#include <algorithm>
#include <cmath>

namespace planloom::program {
namespace {

/// What @p site exchanges with the stage @p other. Replicas meet where their slices do. Where both sides have the same shards each talks to its
/// own counterpart; else what they exchange is whole, and each shard gets it from one.
std::vector<Message> messages(const Compilation &all, const RankSite &site, std::size_t other, plan::SampleRange slice, std::int64_t microBatchSize)
{
    std::vector<Message> parts;
    const plan::Stage &stage = all.plan.stages[other];
    const std::size_t ownShards = all.stageOf(site).shards();
    const std::size_t shards = stage.shards();
    const std::size_t own = site.device % ownShards;
    const bool towardsNext = other > site.stage.index();
    for (std::size_t replica = 0; replica < stage.replicas(); ++replica) {
        const plan::SampleRange theirs = plan::replicaRange(stage, replica, microBatchSize);
        const std::int64_t begin = std::max(slice.begin, theirs.begin);
        const std::int64_t end = std::min(slice.begin + slice.size, theirs.begin + theirs.size);
        for (std::size_t shard = 0; begin < end && shard < shards; ++shard) {
            const bool fromOther = own % shards == shard;    // what the other side makes comes here
            const bool toOther = shard % ownShards == own;   // what is made here goes there
            if (!fromOther && !toOther)
                continue;
            Message message{all.ranksOf(other)[replica * shards + shard], {begin, end - begin}};
            message.activation = towardsNext ? toOther : fromOther;
            message.gradient = towardsNext ? fromOther : toOther;
            parts.push_back(message);
        }
    }
    return parts;
}

void fillSlices(const Compilation &all, const RankSite &site, Body &body)
{
    for (std::int64_t m = 0; m < all.plan.microBatches; ++m) {
        const plan::SampleRange batch = plan::microBatchRange(all.plan, m);
        const plan::SampleRange slice = plan::replicaRange(all.stageOf(site), site.replica, batch.size);
        body.slices.push_back({batch.begin + slice.begin, slice.size});
        body.incoming.push_back(all.isFirst(site) ? std::vector<Message>{} : messages(all, site, site.stage.index() - 1, slice, batch.size));
        body.outgoing.push_back(all.isLast(site) ? std::vector<Message>{} : messages(all, site, site.stage.index() + 1, slice, batch.size));
    }
}

/// Places of what stays: parameters in the type that operators read, shards, constants, and views of them.
class HeldPlaces {
public:
    HeldPlaces(const Compilation &all, const StageModel &model, RankId rank, Body &body)
        : m_program(all.program), m_model(model), m_rank(rank), m_mine(bucketsOf(all.program, rank)), m_body(body)
    {
    }

    void place(const PersistentLayout &persistent, const StageLayout &layout)
    {
        const StageHoldings &holdings = m_model.holdings();
        std::map<std::string, const HeldParameter *> byName;
        for (const HeldParameter &parameter : holdings.parameters)
            byName.emplace(parameter.name, &parameter);
        for (const std::int32_t b : m_mine) {
            const Bucket &bucket = m_program.buckets[static_cast<std::size_t>(b)];
            for (const Bucket::Entry &entry : bucket.entries)
                placeParameter(bucket, entry, byName.at(entry.parameter)->id);
        }
        for (const BucketTensor &shard : m_model.shards().parameters)
            set(shard.id, readBase(bucketAt(shard.ordinal)));
        for (const BucketTensor &shard : m_model.shards().gradients)
            m_body.accumulators.push_back({shard.id, bucketAt(shard.ordinal).gradients[position(bucketAt(shard.ordinal))]});
        for (std::size_t i = 0; i < holdings.others.size(); ++i)
            set(holdings.others[i].id, persistent.others[i]);
        for (const StageLayout::View &view : layout.views)
            set(view.id, m_body.forwardPlaces[view.root.index()].offset + view.offset);
    }

private:
    [[nodiscard]] const Bucket &bucketAt(std::size_t ordinal) const { return m_program.buckets[static_cast<std::size_t>(m_mine[ordinal])]; }
    [[nodiscard]] std::size_t position(const Bucket &bucket) const { return m_program.teams[static_cast<std::size_t>(bucket.team)].position(m_rank); }
    [[nodiscard]] std::int64_t readBase(const Bucket &bucket) const
    {
        return bucket.type == graph::DType::BF16 ? bucket.copies[position(bucket)] : bucket.parameters[position(bucket)];
    }

    void placeParameter(const Bucket &bucket, const Bucket::Entry &entry, TensorId id)
    {
        if (bucket.zero < 3 && id.valid())
            set(id, readBase(bucket) + entry.at * graph::sizeOf(bucket.type));
        const auto &training = m_body.training;
        for (std::size_t p = 0; p < training.parameters.size(); ++p)
            if (training.parameters[p] == id && id.valid() && training.gradients[p].valid())
                m_body.accumulators.push_back({training.gradients[p], bucket.gradients[position(bucket)] + entry.at * graph::sizeOf(graph::DType::F32)});
    }

    void set(TensorId id, std::int64_t offset)
    {
        m_body.forwardPlaces[id.index()].offset = offset;
        m_body.backwardPlaces[id.index()].offset = offset;
    }

    const Program &m_program;
    const StageModel &m_model;
    RankId m_rank;
    std::vector<std::int32_t> m_mine;
    Body &m_body;
};

} // namespace

void buildBody(Compilation &all, RankId id, bool complete)
{
    const RankSite &site = all.sites[id.index()];
    StageModel &model = all.stages[site.stage.index()];
    const double samples = all.samples.largestSlice(site);
    const StageLayout &layout = model.layout(samples);
    const int moments = all.plan.optimizer.stateTensors();
    const PersistentLayout persistent = layoutPersistent(model.holdings(), id, moments, all.program);
    Body body;
    body.stage = site.stage;
    body.rank = id;
    body.replica = site.replica;
    body.device = site.device;
    body.coordinates = model.mesh().coordinates(static_cast<int>(site.device));
    body.recompute = model.runsAgain();
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
        body.training = *model.training();
        body.forwardPlaces = layout.forwardPlaces;
        body.backwardPlaces = layout.backwardPlaces;
        HeldPlaces(all, model, id, body).place(persistent, layout);
        body.held = heldBy(model.holdings(), id, moments, persistent, all.program);
        fillSlices(all, site, body);
    }
    rank.bodies.push_back(static_cast<std::int32_t>(all.program.bodies.size()));
    all.program.bodies.push_back(std::move(body));
}

} // namespace planloom::program
