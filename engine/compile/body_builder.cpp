// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compilation.h"

#include <algorithm>
#include <cmath>

namespace planloom::compile {
namespace {

/// What @p site exchanges with the stage @p other. Replicas meet where their slices do. Where both sides have the same
/// shards each talks to its own counterpart; else what they exchange is whole, and each shard gets it from one.
std::vector<Message> messages(const Compilation &all, const RankSite &site, std::size_t other, plan::SampleRange slice,
                              std::int64_t microBatchSize)
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
            const bool fromOther = own % shards == shard;  // what the other side makes comes here
            const bool toOther = shard % ownShards == own; // what is made here goes there
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
        body.incoming.push_back(all.isFirst(site) ? std::vector<Message>{}
                                                  : messages(all, site, site.stage.index() - 1, slice, batch.size));
        body.outgoing.push_back(all.isLast(site) ? std::vector<Message>{}
                                                 : messages(all, site, site.stage.index() + 1, slice, batch.size));
    }
}

/// Places of what stays: parameters in the type that operators read, shards, constants, and views of them.
class HeldPlaces {
public:
    HeldPlaces(const Compilation &all, const StageModel &model, RankId rank, Body &body)
        : m_program(all.program),
          m_model(model),
          m_rank(rank),
          m_mine(bucketsOf(all.program, rank)),
          m_body(body)
    {
    }

    void place(const std::vector<std::int64_t> &others, const StageLayout &layout)
    {
        const StageHoldings &holdings = m_model.holdings();
        std::map<std::string, const HeldParameter *> byName;
        for (const HeldParameter &parameter : holdings.parameters)
            byName.emplace(parameter.name, &parameter);
        for (const BucketId b : m_mine) {
            const Bucket &bucket = m_program.bucket(b);
            for (const Bucket::Entry &entry : bucket.entries)
                if (const auto own = byName.find(entry.parameter);
                    own != byName.end()) // else of another stage on the same rank
                    placeParameter(bucket, entry, own->second->id);
        }
        for (const BucketTensor &shard : m_model.shards().parameters)
            set(shard.id, readBase(bucketAt(shard.ordinal)));
        for (const BucketTensor &shard : m_model.shards().gradients)
            m_body.accumulators.push_back(
                {shard.id, bucketAt(shard.ordinal).gradients[position(bucketAt(shard.ordinal))]});
        for (std::size_t i = 0; i < holdings.others.size(); ++i)
            set(holdings.others[i].id, others[i]);
        for (const StageLayout::View &view : layout.views)
            set(view.id, m_body.forwardPlaces[view.root.index()].offset + view.offset);
    }

private:
    [[nodiscard]] const Bucket &bucketAt(std::size_t ordinal) const { return m_program.bucket(m_mine[ordinal]); }
    [[nodiscard]] std::size_t position(const Bucket &bucket) const
    {
        return m_program.team(bucket.team).position(m_rank);
    }
    [[nodiscard]] std::int64_t readBase(const Bucket &bucket) const
    {
        return bucket.type == graph::DType::BF16 ? bucket.copies[position(bucket)]
                                                 : bucket.parameters[position(bucket)];
    }

    void placeParameter(const Bucket &bucket, const Bucket::Entry &entry, TensorId id)
    {
        if (bucket.zero < 3 && id.valid())
            set(id, readBase(bucket) + entry.at * graph::sizeOf(bucket.type));
        const auto &training = m_body.training;
        for (std::size_t p = 0; p < training.parameters.size(); ++p)
            if (training.parameters[p] == id && id.valid() && training.gradients[p].valid())
                m_body.accumulators.push_back(
                    {training.gradients[p],
                     bucket.gradients[position(bucket)] + entry.at * graph::sizeOf(graph::DType::F32)});
    }

    void set(TensorId id, std::int64_t offset)
    {
        m_body.forwardPlaces[id.index()].offset = offset;
        m_body.backwardPlaces[id.index()].offset = offset;
    }

    const Program &m_program;
    const StageModel &m_model;
    RankId m_rank;
    std::vector<BucketId> m_mine;
    Body &m_body;
};

/// Lays out the arena of one rank and makes its bodies.
class RankBuilder {
public:
    RankBuilder(Compilation &all, RankId id) : m_all(all), m_id(id), m_rank(all.program.ranks[id.index()])
    {
        for (const BodyId b : m_rank.bodies) {
            RankSite &site = all.sites[b.index()];
            m_sites.push_back(&site);
            m_layouts.push_back(&all.stages[site.stage.index()].layout(all.samples.largestSlice(site)));
        }
    }

    void build(bool complete)
    {
        const PersistentLayout persistent = layPersistent();
        const Pool pooled = layPool(persistent);
        m_frames = {m_rank.arenaBytes, largest(Area::Frame), jointFrames()};
        m_rank.arenaBytes += m_frames.bytes();
        for (std::size_t i = 0; i < m_sites.size(); ++i) {
            Body body = emptyBody(*m_sites[i]);
            for (int area = 0; area < kAreas; ++area)
                body.pools.push_back(pool(i, static_cast<Area>(area)));
            body.pools[at(Area::Pool)] = pooled; // a rank with a policy has one body
            if (i == 0)                          // one for all
                body.pools[at(Area::Persistent)] = {0, persistent.bytes, persistent.bytes > 0 ? 1 : 0};
            if (complete)
                fill(body, i, persistent.others[i]);
            m_all.program.body(m_rank.bodies[i]) = std::move(body);
        }
        // A rank computes one pass at a time: its stages share the workspace.
        for (const BodyId b : m_rank.bodies)
            m_all.program.body(b).pools[at(Area::Workspace)].begin = m_rank.arenaBytes;
        m_rank.arenaBytes += largest(Area::Workspace);
    }

private:
    static std::size_t at(Area area) { return static_cast<std::size_t>(area); }

    PersistentLayout layPersistent()
    {
        std::vector<const StageHoldings *> holdings;
        for (const RankSite *site : m_sites)
            holdings.push_back(&m_all.stages[site->stage.index()].holdings());
        const bool hostStates = m_sites.size() == 1 && memoryOf(0) != nullptr && policy().hostStates;
        PersistentLayout persistent = layoutPersistent(holdings, m_id, m_all.plan, m_all.program, hostStates);
        m_rank.persistentBytes = persistent.bytes;
        m_rank.arenaBytes = persistent.bytes;
        return persistent;
    }

    [[nodiscard]] const StageMemory *memoryOf(std::size_t i) const { return m_all.memoryOf(m_rank.bodies[i].index()); }
    [[nodiscard]] const plan::Memory &policy() const { return m_all.stageOf(*m_sites.front()).memory; }

    /// The pool of the rank's memory policy, where activations lie and, for the update, states that are on the host
    /// else. It follows what is persistent, as those are laid out there.
    Pool layPool(const PersistentLayout &persistent)
    {
        const StageMemory *memory = memoryOf(0);
        if (memory == nullptr)
            return {};
        const Pool pool{m_rank.arenaBytes, std::max(memory->poolBytes, persistent.hostedBytes), 1};
        m_rank.arenaBytes += pool.bytes();
        m_rank.hostBytes = memory->course.hostBytes;
        m_rank.hostTier = policy().hostTier;
        if (persistent.hostedBytes == 0)
            return pool;
        constexpr std::int64_t kBlock = 4096; // of files
        const auto whole = [](std::int64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; };
        m_rank.hostedStates = {TensorId(), 0, whole(m_rank.hostBytes), persistent.hostedBytes};
        m_rank.hostBytes = m_rank.hostedStates.host + whole(persistent.hostedBytes);
        return pool;
    }

    [[nodiscard]] std::int64_t largest(Area area) const
    {
        std::int64_t most = 0;
        for (const StageLayout *layout : m_layouts)
            most = std::max(most, layout->slotBytes[at(area)]);
        return most;
    }

    /// Lets the stages share slots for what they keep, if that takes less than as many as each needs at its own worst
    /// moment. Returns how many; 0: no.
    std::int32_t jointFrames()
    {
        if (m_sites.size() < 2)
            return 0;
        std::int64_t apart = 0;
        std::vector<std::int64_t> stages;
        for (std::size_t i = 0; i < m_sites.size(); ++i) {
            const std::int64_t bytes = m_layouts[i]->slotBytes[at(Area::Frame)];
            apart += bytes * m_sites[i]->slotPlan.counts[at(Area::Frame)];
            stages.push_back(bytes > 0 ? m_sites[i]->stage.value : -1);
        }
        const JointSlots joint = planJointSlots(m_all.orders[m_id.index()], stages, m_all.plan.microBatches);
        if (joint.count * largest(Area::Frame) >= apart)
            return 0;
        for (std::size_t i = 0; i < m_sites.size(); ++i)
            for (std::size_t m = 0; m < joint.taken[i].size(); ++m)
                m_sites[i]->slotPlan.slotTable[m].slot[at(Area::Frame)] = joint.taken[i][m];
        return joint.count;
    }

    /// The pool of a stage's own slots; Persistent, Workspace and joint frames are laid out for all stages together.
    Pool pool(std::size_t i, Area area)
    {
        Pool pool;
        pool.slotBytes = m_layouts[i]->slotBytes[at(area)];
        pool.begin = m_rank.arenaBytes;
        if (area == Area::Persistent || area == Area::Pool || pool.slotBytes == 0)
            return {};
        if (area == Area::Frame && m_frames.count > 0)
            return m_frames;
        pool.count = m_sites[i]->slotPlan.counts[at(area)];
        if (area != Area::Workspace)
            m_rank.arenaBytes += pool.bytes();
        return pool;
    }

    [[nodiscard]] Body emptyBody(const RankSite &site) const
    {
        Body body;
        body.stage = site.stage;
        body.rank = m_id;
        body.replica = site.replica;
        body.device = site.device;
        body.coordinates = m_all.stages[site.stage.index()].mesh().coordinates(static_cast<int>(site.device));
        body.recompute = m_all.stages[site.stage.index()].runsAgain();
        body.maxSamples = static_cast<std::int64_t>(std::ceil(m_all.samples.largestSlice(site)));
        body.slotTable = site.slotPlan.slotTable;
        return body;
    }

    void fill(Body &body, std::size_t i, const std::vector<std::int64_t> &others)
    {
        const RankSite &site = *m_sites[i];
        const StageModel &model = m_all.stages[site.stage.index()];
        body.training = *model.training();
        body.forwardPlaces = m_layouts[i]->forwardPlaces;
        body.backwardPlaces = m_layouts[i]->backwardPlaces;
        HeldPlaces(m_all, model, m_id, body).place(others, *m_layouts[i]);
        const auto &buckets = m_all.bucketsAt[m_rank.bodies[i].index()];
        body.held = heldBy(model.holdings(), m_id, buckets, others, m_all.program);
        fillSlices(m_all, site, body);
        if (const StageMemory *memory = m_all.memoryOf(m_rank.bodies[i].index()))
            body.firstInference = memory->appendInference(m_all.program);
    }

    Compilation &m_all;
    RankId m_id;
    Rank &m_rank;
    std::vector<RankSite *> m_sites;
    std::vector<const StageLayout *> m_layouts;
    Pool m_frames; ///< that all stages share, if it has slots
};

} // namespace

void buildBodies(Compilation &all, bool complete)
{
    all.program.bodies.resize(all.sites.size());
    for (std::size_t r = 0; r < all.program.ranks.size(); ++r)
        RankBuilder(all, RankId(static_cast<std::int64_t>(r))).build(complete);
}

} // namespace planloom::compile
