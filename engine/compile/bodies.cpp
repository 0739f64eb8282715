// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/bodies.h"

#include "engine/memory/host_blocks.h"

#include <algorithm>
#include <cmath>

namespace planloom::compile {
namespace {

/// What @p instance exchanges with the stage @p other. Replicas meet where their slices do. Where both sides have the
/// same shards each talks to its own counterpart; else what they exchange is whole, and each shard gets it from one.
std::vector<Message> messages(const BodiesInput &in, const StageInstance &instance, std::size_t other,
                              plan::SampleRange slice, std::int64_t microBatchSize)
{
    std::vector<Message> parts;
    const plan::Stage &stage = in.source.plan.stages[other];
    const std::size_t ownShards = in.stageOf(instance).shards();
    const std::size_t shards = stage.shards();
    const std::size_t own = instance.device % ownShards;
    const bool towardsNext = other > instance.stage.index();
    for (std::size_t replica = 0; replica < stage.replicas(); ++replica) {
        const plan::SampleRange theirs = plan::replicaRange(stage, replica, microBatchSize);
        const std::int64_t begin = std::max(slice.begin, theirs.begin);
        const std::int64_t end = std::min(slice.begin + slice.size, theirs.begin + theirs.size);
        for (std::size_t shard = 0; begin < end && shard < shards; ++shard) {
            const bool fromOther = own % shards == shard;  // what the other side makes comes here
            const bool toOther = shard % ownShards == own; // what is made here goes there
            if (!fromOther && !toOther)
                continue;
            Message message{in.ranks.ofStage[other][replica * shards + shard], {begin, end - begin}};
            message.activation = towardsNext ? toOther : fromOther;
            message.gradient = towardsNext ? fromOther : toOther;
            parts.push_back(message);
        }
    }
    return parts;
}

void fillSlices(const BodiesInput &in, const StageInstance &instance, Body &body)
{
    const Source &source = in.source;
    for (std::int64_t m = 0; m < source.plan.microBatches; ++m) {
        const plan::SampleRange batch = plan::microBatchRange(source.plan, m);
        const plan::SampleRange slice = plan::replicaRange(in.stageOf(instance), instance.replica, batch.size);
        body.slices.push_back({batch.begin + slice.begin, slice.size});
        const std::size_t stage = instance.stage.index();
        body.incoming.push_back(source.isFirst(instance.stage) ? std::vector<Message>{}
                                                               : messages(in, instance, stage - 1, slice, batch.size));
        body.outgoing.push_back(source.isLast(instance.stage) ? std::vector<Message>{}
                                                              : messages(in, instance, stage + 1, slice, batch.size));
    }
}

/// Places of what stays: parameters in the type that operators read, shards, constants, and views of them.
class PersistentPlaces {
public:
    PersistentPlaces(const BodiesInput &in, const StageModel &model, RankId rank, const HostedParts &hosted, Body &body)
        : m_buckets(in.persistent.buckets),
          m_teams(in.teams),
          m_model(model),
          m_rank(rank),
          m_mine(m_buckets.ofRank[rank.index()]),
          m_hosted(hosted),
          m_body(body)
    {
    }

    void place(const std::vector<std::int64_t> &others, const StageLayout &layout)
    {
        const StageTensors &tensors = m_model.tensors();
        std::map<std::string, const LocalParameter *> byName;
        for (const LocalParameter &parameter : tensors.parameters)
            byName.emplace(parameter.name, &parameter);
        for (const BucketId b : m_mine) {
            const Bucket &bucket = m_buckets.at(b);
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
        for (std::size_t i = 0; i < tensors.others.size(); ++i)
            set(tensors.others[i].id, others[i]);
        for (const StageLayout::View &view : layout.views)
            set(view.id, m_body.forwardPlaces[view.root.index()].offset + view.offset);
    }

private:
    [[nodiscard]] const Bucket &bucketAt(std::size_t ordinal) const { return m_buckets.at(m_mine[ordinal]); }
    [[nodiscard]] std::size_t position(const Bucket &bucket) const
    {
        return m_teams.team(bucket.team).position(m_rank);
    }
    [[nodiscard]] std::int64_t readBase(const Bucket &bucket) const
    {
        return bucket.type == graph::DType::BF16 ? bucket.copies[position(bucket)]
                                                 : bucket.parameters[position(bucket)];
    }

    void placeParameter(const Bucket &bucket, const Bucket::Entry &entry, TensorId id)
    {
        if (const HostedParts::Place *part = m_hosted.find(entry.parameter); part != nullptr && id.valid())
            set(id, m_hosted.poolBegin + m_hosted.at(*part).copy.place + part->offset); // else where calls say
        else if (bucket.zero < 3 && id.valid())
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

    const Buckets &m_buckets;
    const FoldedTeams &m_teams;
    const StageModel &m_model;
    RankId m_rank;
    const std::vector<BucketId> &m_mine;
    const HostedParts &m_hosted;
    Body &m_body;
};

/// Lays out the arena of one rank and makes its bodies.
class RankBuilder {
public:
    RankBuilder(const BodiesInput &in, RankId id, Bodies &made)
        : m_in(in),
          m_id(id),
          m_bodies(in.instances.ofRank[id.index()]),
          m_persistent(in.persistent.ofRank[id.index()]),
          m_made(made),
          m_arena(made.arenas[id.index()])
    {
        for (const BodyId b : m_bodies) {
            const StageInstance &instance = in.instances[b];
            m_instances.push_back(&instance);
            m_layouts.push_back(
                &in.stages[instance.stage.index()].layout(in.samples.largestSlice(instance.stage, instance.replica)));
        }
    }

    void build()
    {
        m_arena.persistentBytes = m_arena.bytes = m_persistent.bytes;
        const Pool pooled = layPool();
        const JointSlots joint = jointFrames();
        const Pool frames{m_arena.bytes, largest(Area::Frame), joint.count};
        m_arena.bytes += frames.bytes();
        for (std::size_t i = 0; i < m_instances.size(); ++i) {
            Body body = emptyBody(i, joint);
            for (int area = 0; area < kAreas; ++area)
                body.pools.push_back(pool(i, static_cast<Area>(area), frames));
            body.pools[at(Area::Pool)] = pooled; // a rank with a policy has one body
            if (i == 0)                          // one for all
                body.pools[at(Area::Persistent)] = {0, m_persistent.bytes, m_persistent.bytes > 0 ? 1 : 0};
            if (m_in.complete)
                fill(body, i);
            m_made.all[m_bodies[i].index()] = std::move(body);
        }
        // A rank computes one pass at a time: its stages share the workspace.
        for (const BodyId b : m_bodies)
            m_made.all[b.index()].pools[at(Area::Workspace)].begin = m_arena.bytes;
        m_arena.bytes += largest(Area::Workspace);
    }

private:
    static std::size_t at(Area area) { return static_cast<std::size_t>(area); }

    /// The pool of the rank's memory policy, where activations lie and, for the update, states that are on the host
    /// else. It follows what is persistent, as those are laid out there.
    Pool layPool()
    {
        const StageMemory *memory = m_in.memory.of(m_bodies.front().index());
        if (memory == nullptr)
            return {};
        const std::int64_t hosted = m_persistent.hostedBytes;
        const HostedParts &parts = m_persistent.hosted;
        const Pool pool{m_arena.bytes, std::max({memory->poolBytes, hosted, parts.poolBytes}), 1};
        m_arena.bytes += pool.bytes();
        m_arena.hostBytes = memory->course.hostBytes;
        m_arena.hostTier = m_in.stageOf(*m_instances.front()).memory.hostTier;
        for (const HostedPart &part : parts.parts) {
            m_arena.hostedParts.push_back(part.copy);
            m_arena.hostedParts.back().host += memory::wholeHostBlocks(m_arena.hostBytes);
        }
        if (!parts.parts.empty())
            m_arena.hostBytes = memory::wholeHostBlocks(m_arena.hostBytes) + parts.hostBytes;
        if (hosted == 0)
            return pool;
        m_arena.hostedStates = {TensorId(), 0, memory::wholeHostBlocks(m_arena.hostBytes), hosted};
        m_arena.hostBytes = m_arena.hostedStates.host + memory::wholeHostBlocks(hosted);
        return pool;
    }

    [[nodiscard]] std::int64_t largest(Area area) const
    {
        std::int64_t most = 0;
        for (const StageLayout *layout : m_layouts)
            most = std::max(most, layout->slotBytes[at(area)]);
        return most;
    }

    /// Slots that the stages share for what they keep, if that takes less than as many as each needs at its own worst
    /// moment; else none.
    [[nodiscard]] JointSlots jointFrames() const
    {
        if (m_instances.size() < 2)
            return {};
        std::int64_t apart = 0;
        std::vector<std::int64_t> stages;
        for (std::size_t i = 0; i < m_instances.size(); ++i) {
            const std::int64_t bytes = m_layouts[i]->slotBytes[at(Area::Frame)];
            apart += bytes * m_instances[i]->slotPlan.counts[at(Area::Frame)];
            stages.push_back(bytes > 0 ? m_instances[i]->stage.value : -1);
        }
        JointSlots joint = planJointSlots(m_in.ranks.at(m_id).order, stages, m_in.source.plan.microBatches);
        return joint.count * largest(Area::Frame) >= apart ? JointSlots() : joint;
    }

    /// The pool of a stage's own slots; Persistent, Workspace and joint frames are laid out for all stages together.
    Pool pool(std::size_t i, Area area, const Pool &frames)
    {
        Pool pool;
        pool.slotBytes = m_layouts[i]->slotBytes[at(area)];
        pool.begin = m_arena.bytes;
        if (area == Area::Persistent || area == Area::Pool || pool.slotBytes == 0)
            return {};
        if (area == Area::Frame && frames.count > 0)
            return frames;
        pool.count = m_instances[i]->slotPlan.counts[at(area)];
        if (area != Area::Workspace)
            m_arena.bytes += pool.bytes();
        return pool;
    }

    [[nodiscard]] Body emptyBody(std::size_t i, const JointSlots &joint) const
    {
        const StageInstance &instance = *m_instances[i];
        const StageModel &model = m_in.stages[instance.stage.index()];
        Body body;
        body.stage = instance.stage;
        body.rank = m_id;
        body.replica = instance.replica;
        body.device = instance.device;
        body.coordinates = model.mesh().coordinates(static_cast<int>(instance.device));
        body.recompute = model.runsAgain();
        body.maxSamples =
            static_cast<std::int64_t>(std::ceil(m_in.samples.largestSlice(instance.stage, instance.replica)));
        body.slotTable = instance.slotPlan.slotTable;
        for (std::size_t m = 0; joint.count > 0 && m < joint.taken[i].size(); ++m)
            body.slotTable[m].slot[at(Area::Frame)] = joint.taken[i][m];
        return body;
    }

    void fill(Body &body, std::size_t i)
    {
        const StageInstance &instance = *m_instances[i];
        const StageModel &model = m_in.stages[instance.stage.index()];
        const std::vector<std::int64_t> &others = m_persistent.others[i];
        body.training = *model.training();
        body.forwardPlaces = m_layouts[i]->forwardPlaces;
        body.backwardPlaces = m_layouts[i]->backwardPlaces;
        PersistentPlaces(m_in, model, m_id, m_persistent.hosted, body).place(others, *m_layouts[i]);
        body.persistent = persistentTensors(model.tensors(), instance, m_in.owners.ofInstance[m_bodies[i].index()],
                                            others, m_in.persistent.buckets, m_in.teams, m_persistent.hosted);
        fillSlices(m_in, instance, body);
        if (const StageMemory *memory = m_in.memory.of(m_bodies[i].index())) {
            body.firstInference = memory->appendInference(m_made.inference);
            for (const StageMemory::InferenceParameter &each : memory->inferenceParameters)
                body.inferenceCopies.push_back(
                    {each.op, parameterCopy(*memory, each.root, each.place, m_persistent.hosted, m_arena.hostedParts)});
        }
    }

    const BodiesInput &m_in;
    RankId m_id;
    const std::vector<BodyId> &m_bodies;
    const PersistentLayout &m_persistent;
    Bodies &m_made;
    Arena &m_arena;
    std::vector<const StageInstance *> m_instances;
    std::vector<const StageLayout *> m_layouts;
};

} // namespace

Bodies buildBodies(const BodiesInput &in)
{
    Bodies made;
    made.all.resize(in.instances.size());
    made.arenas.resize(in.ranks.size());
    for (std::size_t r = 0; r < in.ranks.size(); ++r)
        RankBuilder(in, RankId(static_cast<std::int64_t>(r)), made).build();
    return made;
}

} // namespace planloom::compile
