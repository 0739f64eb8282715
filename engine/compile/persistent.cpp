// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/persistent.h"

#include "engine/compile/layout.h"
#include "engine/plan/training.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace planloom::compile {
namespace {

/// Lays out the parameter at member @p at of @p table. Returns where operators read it.
template <class Place>
std::int64_t layTable(program::Table &table, std::size_t at, const Place &place)
{
    program::Table::Member &member = table.members[at];
    member.held = place(member.rows() * member.width());
    return table.isCut() ? place(table.window * table.columns) : member.held;
}

/// Lays out the states of what member @p at holds, rows on their way, and those that an update is made of.
template <class Place>
void layRows(program::Table &table, std::size_t at, std::size_t states, const Place &place)
{
    program::Table::Member &member = table.members[at];
    for (std::size_t s = 0; s < states; ++s)
        member.states.push_back(place(member.rows() * member.width()));
    member.own = place(table.ownNumbers());
    member.others = place(table.otherNumbers(member));
    if (table.delays) {
        member.delayedOwn = place(table.ownNumbers());
        member.delayedOthers = place(table.otherNumbers(member));
    }
    const std::int64_t updated = table.updatedRows(member) * member.width();
    member.sums = place(updated);
    member.updated = place(updated);
    for (std::size_t s = 0; s < states; ++s)
        member.updatedStates.push_back(place(updated));
}

/// What two ranges have in common.
Shard common(Shard a, Shard b)
{
    const std::int64_t begin = std::max(a.begin, b.begin);
    const std::int64_t end = std::min(a.begin + a.count, b.begin + b.count);
    return {begin, std::max<std::int64_t>(0, end - begin)};
}

/// False for parameter @p name of rank @p rank where the update has the learning rate 0.
bool isUpdated(const PersistentInput &in, RankId rank, std::string_view name)
{
    for (const BodyId body : in.instances.ofRank[rank.index()])
        for (const LocalParameter &parameter : in.stages[in.instances[body].stage.index()].tensors().parameters)
            if (parameter.name == name)
                return plan::settingsOf(in.plan.optimizer, parameter.name, parameter.sizes.size()).learningRateFactor
                    != 0;
    return true;
}

/// Lays out what rank @p rank has and notes in @p buckets where. A parameter that several of its stages use lies there
/// once. With @p policy's hostStates the optimizer's states, and parameters that it alone reads, lie behind all else
/// and are not counted: they are there for the update alone; with its hostParameters parameters, and states with
/// hostStates, lie in parts, which @p poolBytes of the pool are for.
PersistentLayout layRank(const PersistentInput &in, RankId rank, const plan::Memory &policy, std::int64_t poolBytes,
                         Buckets &buckets)
{
    PersistentLayout layout;
    const bool hostStates = policy.hostStates;
    const bool hostsParts = policy.hostParameters;
    const auto states = static_cast<std::size_t>(in.plan.optimizer.rule.footprint().states);
    if (hostsParts)
        layout.hosted =
            hostParameters(buckets.ofRank[rank.index()], buckets, hostStates ? static_cast<std::int64_t>(states) : 0,
                           poolBytes, [&](std::string_view name) { return isUpdated(in, rank, name); });
    const auto place = [&layout](std::int64_t bytes) {
        const std::int64_t offset = layout.bytes;
        layout.bytes += aligned(bytes);
        return offset;
    };
    const auto each = [&](auto lay) {
        for (const BucketId b : buckets.ofRank[rank.index()]) {
            Bucket &bucket = buckets.all[b.index()];
            lay(bucket, in.teams.team(bucket.team).position(rank));
        }
    };
    const auto shard = [&in](const Bucket &bucket, std::size_t at, int level) {
        return shardOf(bucket, in.teams.team(bucket.team).size(), at, level).count;
    };
    const auto floats = [&place](std::int64_t count) { return place(count * graph::sizeOf(graph::DType::F32)); };
    // What operators read lies whole up to ZeRO 2; a master beside a bfloat16 copy is only the optimizer's and is cut
    // with its states.
    each([&](Bucket &bucket, std::size_t at) {
        const bool copied = bucket.type == graph::DType::BF16;
        if (bucket.table.valid())
            bucket.parameters[at] = layTable(buckets.tables[bucket.table.index()], at, floats);
        else if (!hostsParts && (!hostStates || !onlyUpdateReadsParameters(bucket)))
            bucket.parameters[at] = floats(shard(bucket, at, copied ? 1 : 3));
        if (copied)
            bucket.copies[at] = place(shard(bucket, at, 3) * graph::sizeOf(graph::DType::BF16));
    });
    each([&](Bucket &bucket, std::size_t at) {
        bucket.gradients[at] = place(shard(bucket, at, 2) * graph::sizeOf(graph::DType::F32));
        if (bucket.zero == 1)
            bucket.sums[at] = place(shard(bucket, at, 1) * graph::sizeOf(graph::DType::F32));
    });
    const auto layStates = [&] {
        for (std::size_t s = 0; s < states; ++s)
            each([&](Bucket &bucket, std::size_t at) {
                if (bucket.table.valid())
                    return;
                bucket.states[s][at] = place(shard(bucket, at, 1) * graph::sizeOf(graph::DType::F32));
            });
    };
    if (!hostStates)
        layStates();
    each([&](Bucket &bucket, std::size_t at) {
        if (bucket.table.valid())
            layRows(buckets.tables[bucket.table.index()], at, states, floats);
    });
    each([&](Bucket &bucket, std::size_t at) {
        if (!bucket.isAveraged() || in.teams.team(bucket.team).size() < 2)
            return;
        bucket.averages[at] = place(bucket.bytes());
        if (in.plan.exchange.averaging.merge == plan::Merge::Corrected)
            bucket.snapshots[at] = place(bucket.bytes());
    });
    for (const BodyId body : in.instances.ofRank[rank.index()]) {
        const StageInstance &instance = in.instances[body];
        const StageTensors &stage = in.stages[instance.stage.index()].tensors();
        layout.others.emplace_back();
        for (const LocalTensor &other : stage.others)
            layout.others.back().push_back(
                place(other.bytes * (other.ofSamples ? stage.samples[instance.device].size : 1)));
    }
    if (hostStates && !hostsParts) {
        const std::int64_t begin = layout.bytes;
        each([&](Bucket &bucket, std::size_t at) {
            if (onlyUpdateReadsParameters(bucket))
                bucket.parameters[at] = floats(shard(bucket, at, 1));
        });
        layStates();
        layout.hostedBytes = layout.bytes - begin;
        layout.bytes = begin;
    }
    layout.hosted.poolBegin = layout.bytes;
    return layout;
}

/// What member @p position holds of a table. What updates them is no task of the parameters' update.
PersistentTensor persistentOfTable(const program::Table &table, std::size_t position)
{
    const program::Table::Member &member = table.members[position];
    PersistentTensor held;
    held.name = table.parameter;
    held.count = held.updateCount = member.rows() * member.width();
    held.offset = member.held;
    held.states = member.states;
    held.saves = table.isCut() || position == 0;
    return held;
}

/// Entry @p entry of @p bucket as member @p position holds it.
PersistentTensor persistentEntry(const Buckets &buckets, const Bucket &bucket, const Bucket::Entry &entry,
                                 std::size_t members, std::size_t position)
{
    if (bucket.table.valid())
        return persistentOfTable(buckets.table(bucket.table), position);
    const bool copied = bucket.type == graph::DType::BF16;
    const Shard whole{entry.at, entry.elements};
    const Shard stored = shardOf(bucket, members, position, copied ? 1 : 3);
    const Shard copies = shardOf(bucket, members, position, 3);
    const Shard gradients = shardOf(bucket, members, position, 2);
    const Shard updated = shardOf(bucket, members, position, 1);
    const Shard here = common(whole, stored);
    const Shard own = common(whole, updated);
    const auto offset = [](std::int64_t base, std::int64_t element, Shard from, std::int64_t size) {
        return base + (element - from.begin) * size;
    };
    PersistentTensor held;
    held.name = entry.parameter;
    held.begin = here.begin - entry.at;
    held.count = here.count;
    held.offset = offset(bucket.parameters[position], here.begin, stored, 4);
    if (copied) {
        const Shard read = common(whole, copies);
        held.copy = offset(bucket.copies[position], read.begin, copies, 2);
        held.copyBegin = read.begin - entry.at;
        held.copyCount = read.count;
    }
    held.updateBegin = own.begin - entry.at;
    held.updateCount = own.count;
    held.gradient = bucket.zero == 1 ? offset(bucket.sums[position], own.begin, updated, 4)
                                     : offset(bucket.gradients[position], own.begin, gradients, 4);
    for (const std::vector<std::int64_t> &state : bucket.states)
        held.states.push_back(offset(state[position], own.begin, updated, 4));
    if (bucket.averages[position] >= 0)
        held.average = offset(bucket.averages[position], own.begin, updated, 4);
    if (bucket.snapshots[position] >= 0)
        held.snapshot = offset(bucket.snapshots[position], own.begin, updated, 4);
    held.served = bucket.isServed();
    held.saves = bucket.zero > 0 || position == 0 || bucket.averages[position] >= 0;
    return held;
}

/// Its place while its part is in the pool, and those of its states where they are there, too.
void putIntoPart(PersistentTensor &held, const HostedParts &hosted, const HostedParts::Place &place)
{
    const HostedPart &part = hosted.at(place);
    held.part = place.part;
    held.offset = hosted.poolBegin + part.copy.place + place.offset;
    for (std::size_t s = 0; hosted.states && s < held.states.size(); ++s)
        held.states[s] =
            held.offset + static_cast<std::int64_t>(s + 1) * part.elements * graph::sizeOf(graph::DType::F32);
}

/// Of a row a sample up to @p last, those of @p own.
void cutToSamples(PersistentTensor &held, plan::SampleRange own, plan::SampleRange last)
{
    held.ofSamples = true;
    held.sizes.front() = last.begin + last.size;
    held.region.front() = {{own.begin, own.begin + own.size}};
    held.count *= own.size;
    held.saves = true;
}

} // namespace

bool onlyUpdateReadsParameters(const Bucket &bucket)
{
    return bucket.type == graph::DType::BF16 && !bucket.table.valid() && !bucket.isAveraged() && !bucket.isServed();
}

std::int64_t hostedTensors(const Bucket &bucket, std::int64_t states, const plan::Memory &policy)
{
    if (bucket.table.valid()) // rows and their states stay
        return 0;
    const bool parameters = policy.hostParameters || (policy.hostStates && onlyUpdateReadsParameters(bucket));
    return (policy.hostStates ? states : 0) + (parameters ? 1 : 0);
}

PersistentLayouts layPersistent(const PersistentInput &in, Buckets buckets)
{
    PersistentLayouts made;
    for (std::size_t r = 0; r < in.instances.ofRank.size(); ++r) {
        const std::vector<BodyId> &bodies = in.instances.ofRank[r];
        const StageMemory *memory = bodies.size() == 1 ? in.memory.of(bodies.front().index()) : nullptr;
        plan::Memory policy; // of a rank with several stages: none
        if (memory != nullptr)
            policy = in.plan.stages[in.instances[bodies.front()].stage.index()].memory;
        made.ofRank.push_back(layRank(in, RankId(static_cast<std::int64_t>(r)), policy,
                                      memory != nullptr ? memory->poolBytes : 0, buckets));
    }
    made.buckets = std::move(buckets);
    return made;
}

std::vector<PersistentTensor> persistentTensors(const StageTensors &stage, const StageInstance &instance,
                                                const std::vector<BucketId> &owned,
                                                const std::vector<std::int64_t> &others, const Buckets &buckets,
                                                const FoldedTeams &teams, const HostedParts &hosted)
{
    const auto device = static_cast<int>(instance.device);
    std::unordered_map<std::string, const LocalParameter *> byName;
    for (const LocalParameter &parameter : stage.parameters)
        byName.emplace(parameter.name, &parameter);
    std::vector<PersistentTensor> all;
    for (const BucketId b : owned) {
        const Bucket &bucket = buckets.at(b);
        const std::size_t members = teams.team(bucket.team).size();
        const std::size_t position = teams.team(bucket.team).position(instance.rank);
        for (const Bucket::Entry &entry : bucket.entries) {
            const LocalParameter &parameter = *byName.at(entry.parameter);
            PersistentTensor held = persistentEntry(buckets, bucket, entry, members, position);
            if (const HostedParts::Place *place = hosted.find(entry.parameter))
                putIntoPart(held, hosted, *place);
            held.sizes = parameter.sizes;
            held.region = parameter.table
                ? heldPart(*parameter.table, static_cast<int>(members), static_cast<int>(position))
                : sharding::regionOf(parameter.sizes, parameter.sbp, stage.mesh, device);
            if (held.average >= 0) {
                held.replicas = stage.mesh.sizes.front();
                held.replica = device / (stage.mesh.devices() / held.replicas);
            }
            if (!parameter.trains)
                held.gradient = -1;
            // Teams that hold the same part, because it is not summed over what they differ in, save it once.
            for (std::size_t d = 0; d < parameter.sbp.size(); ++d) {
                const bool reduced =
                    std::find(parameter.reduceOver.begin(), parameter.reduceOver.end(), static_cast<int>(d))
                    != parameter.reduceOver.end();
                if (!reduced && parameter.sbp[d].kind == sharding::Sbp::Kind::Broadcast
                    && stage.mesh.coordinates(device)[d] != 0)
                    held.saves = false;
            }
            all.push_back(std::move(held));
        }
    }
    for (std::size_t i = 0; i < stage.others.size(); ++i) {
        const LocalTensor &other = stage.others[i];
        PersistentTensor held;
        held.kind = other.constant ? PersistentTensor::Kind::Constant : PersistentTensor::Kind::State;
        held.name = other.name;
        held.type = other.type;
        held.sizes = other.sizes;
        held.count = other.bytes / graph::sizeOf(other.type);
        held.offset = others[i];
        held.saves = device == 0;
        held.ofTraining = other.ofTraining;
        for (const std::int64_t size : other.sizes)
            held.region.push_back({{0, size}});
        if (other.ofSamples)
            cutToSamples(held, stage.samples[instance.device], stage.samples.back());
        if (other.ofSamples && stage.stateName && stage.mesh.sizes.size() > 1) {
            held.local = other.name;
            held.name = stage.stateName(other.name, stage.mesh.coordinates(device)[1]);
            held.saves = !held.name.empty();
            if (held.name.empty())
                held.name = other.name;
        }
        all.push_back(std::move(held));
    }
    return all;
}

} // namespace planloom::compile
