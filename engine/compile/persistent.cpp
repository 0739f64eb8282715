// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/persistent.h"

#include "engine/compile/fold.h"
#include "engine/compile/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

namespace planloom::compile {
namespace {

/// Parameters begin at multiples of so many elements within a bucket: 64 bytes of bfloat16, the narrower of the two
/// types.
constexpr std::int64_t kFlatAlignment = 32;

std::int64_t roundUp(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

/// One use of a parameter by a stage.
struct Use {
    std::size_t stage = 0;
    const HeldParameter *parameter = nullptr;
};

/// Finds out who shares which parameters.
class Sharing {
public:
    Sharing(const std::vector<const StageHoldings *> &stages, TeamSets &sets, const plan::Exchange &exchange)
        : m_stages(stages),
          m_sets(sets),
          m_exchange(exchange)
    {
    }

    Result<std::vector<SharedParameter>> find()
    {
        for (std::size_t s = 0; s < m_stages.size(); ++s) {
            for (const HeldParameter &parameter : m_stages[s]->parameters) {
                auto &uses = m_uses[parameter.name];
                if (uses.empty())
                    m_names.push_back(&parameter.name);
                uses.push_back({s, &parameter});
            }
        }
        for (const std::string *name : m_names)
            if (const Status added = add(m_uses[*name]); !added)
                return added.error();
        return std::move(m_shared);
    }

private:
    Status add(const std::vector<Use> &uses)
    {
        if (Status averaged = checkAveraged(uses); !averaged)
            return averaged;
        std::vector<TeamSets::Use> joined;
        for (const Use &use : uses) {
            if (uses.size() > 1 && !fit(uses.front(), use))
                return unsupported("parameter " + use.parameter->name + " is used by stages "
                                   + std::to_string(uses.front().stage) + " and " + std::to_string(use.stage)
                                   + ", which cut it differently; give both the same mesh beyond its first dimension "
                                     "and the same sharding, or put both uses into one stage");
            joined.emplace_back(use.stage, use.parameter->reduceOver);
        }
        const std::int32_t set = m_sets.of(joined);
        const bool alone = m_sets.set(set).team(0).size() < 2;
        const bool cut = alone || uses.front().parameter->table != nullptr;
        const int zero = cut ? 0 : std::min(m_stages[uses.front().stage]->zero, uses.size() > 1 ? 1 : 3);
        // What one gather brings is what one layer needs.
        m_shared.push_back({uses.front().parameter, set, zero, zero >= 2 ? uses.front().parameter->layer + 1 : 0});
        return {};
    }

    /// Local steps sum up no gradients: a replica must make those of an averaged parameter by itself, on one device.
    [[nodiscard]] Status checkAveraged(const std::vector<Use> &uses) const
    {
        const HeldParameter &parameter = *uses.front().parameter;
        const std::size_t group = m_exchange.groupOf(parameter.name, parameter.sizes.size());
        if (m_exchange.policyOf(group) != plan::ExchangePolicy::DelayedAveraging)
            return {};
        if (uses.size() > 1)
            return unsupported(
                fmt::format("parameter {} is used by stages {} and {}, which sum up its gradients in every "
                            "step; exchange dasgd needs both uses in one stage",
                            parameter.name, uses[0].stage, uses[1].stage));
        const sharding::Mesh &mesh = m_stages[uses.front().stage]->mesh;
        for (const int dimension : parameter.reduceOver)
            if (dimension > 0 && mesh.sizes[static_cast<std::size_t>(dimension)] > 1)
                return unsupported(
                    fmt::format("the devices of each replica of stage {} sum up the gradients of "
                                "parameter {}, which exchange dasgd does not do yet; cut the stage without "
                                "sequence parallelism, or exchange by all-reduce",
                                uses.front().stage, parameter.name));
        return {};
    }

    [[nodiscard]] bool fit(const Use &first, const Use &use) const
    {
        return m_sets.teamsOver({first.stage, first.parameter->reduceOver})
            == m_sets.teamsOver({use.stage, use.parameter->reduceOver})
            && use.parameter->elements == first.parameter->elements && use.parameter->type == first.parameter->type
            && sameParts(first, use);
    }

    /// Each team's part of the parameter is that of its first device.
    [[nodiscard]] bool sameParts(const Use &first, const Use &use) const { return partsOf(first) == partsOf(use); }

    [[nodiscard]] std::vector<sharding::Region> partsOf(const Use &use) const
    {
        const sharding::Mesh &mesh = m_stages[use.stage]->mesh;
        std::vector<sharding::Region> parts;
        const std::vector<std::int32_t> teamOf = teamOfDevices(mesh, use.parameter->reduceOver);
        for (std::size_t device = 0; device < teamOf.size(); ++device)
            if (static_cast<std::size_t>(teamOf[device]) == parts.size())
                parts.push_back(
                    sharding::regionOf(use.parameter->sizes, use.parameter->sbp, mesh, static_cast<int>(device)));
        return parts;
    }

    const std::vector<const StageHoldings *> &m_stages;
    TeamSets &m_sets;
    const plan::Exchange &m_exchange;
    std::vector<const std::string *> m_names; ///< in the order of first appearance
    std::unordered_map<std::string, std::vector<Use>> m_uses;
    std::vector<SharedParameter> m_shared;
};

Bucket emptyBucket(TeamId team, const SharedParameter &shared)
{
    Bucket bucket;
    bucket.team = team;
    bucket.zero = shared.zero;
    bucket.type = shared.parameter->type;
    return bucket;
}

void finish(Bucket &bucket, const Team &team, int states)
{
    if (bucket.zero > 0)
        bucket.elements = roundUp(bucket.elements, kFlatAlignment * static_cast<std::int64_t>(team.size()));
    for (auto *offsets :
         {&bucket.parameters, &bucket.copies, &bucket.gradients, &bucket.sums, &bucket.averages, &bucket.snapshots})
        offsets->assign(team.ranks.size(), -1);
    bucket.states.assign(static_cast<std::size_t>(states), std::vector<std::int64_t>(team.ranks.size(), -1));
}

/// A table that the bucket at the end of @p program is of.
void addTable(const RowTable &table, Program &program)
{
    program::Table made;
    made.bucket = BucketId(std::ssize(program.buckets) - 1);
    made.team = program.buckets.back().team;
    made.parameter = table.parameter;
    made.ids = table.ids;
    made.places = table.places;
    made.rows = table.rows;
    made.columns = table.columns;
    made.idsPerSample = table.idsPerSample;
    made.window = table.window;
    made.strategy = table.strategy;
    made.delays = table.delays;
    const auto members = static_cast<int>(program.team(made.team).size());
    for (int position = 0; position < members; ++position) {
        const sharding::Interval columns = columnsOf(table, members, position)[1].front();
        made.members.emplace_back();
        made.members.back().begin = columns.begin;
        made.members.back().end = columns.end;
    }
    program.buckets.back().table = TableId(std::ssize(program.tables));
    program.tables.push_back(std::move(made));
}

/// One bucket for each of the parallel teams.
void addBuckets(const std::vector<const SharedParameter *> &parameters, const std::vector<TeamId> &parallel,
                plan::ExchangePolicy policy, Program &program)
{
    for (const TeamId team : parallel) {
        Bucket bucket = emptyBucket(team, *parameters.front());
        bucket.policy = policy;
        for (const SharedParameter *shared : parameters) {
            bucket.entries.push_back({shared->parameter->name, bucket.elements, shared->parameter->elements});
            bucket.elements += roundUp(shared->parameter->elements, kFlatAlignment);
        }
        program.buckets.push_back(std::move(bucket));
        if (parameters.front()->parameter->table)
            addTable(*parameters.front()->parameter->table, program);
    }
}

// A bucket costs tasks on every rank and a start on the network: beyond this many the overlap gains nothing more.
constexpr std::int64_t kMostBuckets = 32;

/// Runs of about @p bytes of the parameters by when their gradients are ready; each in the order given.
std::vector<std::vector<const SharedParameter *>> chunksOf(const std::vector<const SharedParameter *> &parameters,
                                                           std::int64_t bytes)
{
    std::vector<std::size_t> byReady(parameters.size());
    std::iota(byReady.begin(), byReady.end(), std::size_t{0});
    std::stable_sort(byReady.begin(), byReady.end(), [&](std::size_t a, std::size_t b) {
        return parameters[a]->parameter->ready < parameters[b]->parameter->ready;
    });
    const auto bytesOf = [&](std::size_t p) {
        return parameters[p]->parameter->elements * graph::sizeOf(graph::DType::F32);
    };
    std::int64_t all = 0;
    for (const std::size_t p : byReady)
        all += bytesOf(p);
    const std::int64_t most = std::max(bytes, all / kMostBuckets);
    std::vector<std::vector<std::size_t>> chunks(1);
    std::int64_t filled = 0;
    for (const std::size_t p : byReady) {
        if (filled > 0 && filled + bytesOf(p) > most) {
            chunks.emplace_back();
            filled = 0;
        }
        chunks.back().push_back(p);
        filled += bytesOf(p);
    }
    std::vector<std::vector<const SharedParameter *>> made;
    for (std::vector<std::size_t> &chunk : chunks) {
        std::sort(chunk.begin(), chunk.end());
        made.emplace_back();
        for (const std::size_t p : chunk)
            made.back().push_back(parameters[p]);
    }
    return made;
}

/// Lays out the parameter at member @p at of @p table. Returns where operators read it.
template <class Place>
std::int64_t layTable(program::Table &table, std::size_t at, const Place &place)
{
    program::Table::Member &member = table.members[at];
    member.held = place(table.rows * (member.end - member.begin));
    return table.strategy == plan::TableStrategy::AllToAll ? place(table.window * table.columns) : member.held;
}

/// Lays out the states of what member @p at holds, rows on their way, and those that an update is made of.
template <class Place>
void layRows(program::Table &table, std::size_t at, std::size_t states, const Place &place)
{
    program::Table::Member &member = table.members[at];
    const std::int64_t width = member.end - member.begin;
    std::int64_t widths = 0;
    for (const program::Table::Member &each : table.members)
        widths += each.end - each.begin;
    for (std::size_t s = 0; s < states; ++s)
        member.states.push_back(place(table.rows * width));
    member.own = place(table.window * widths);
    member.others = place(table.window * std::ssize(table.members) * width);
    if (table.delays) {
        member.delayedOwn = place(table.window * widths);
        member.delayedOthers = place(table.window * std::ssize(table.members) * width);
    }
    member.sums = place(table.updatedRows() * width);
    member.updated = place(table.updatedRows() * width);
    for (std::size_t s = 0; s < states; ++s)
        member.updatedStates.push_back(place(table.updatedRows() * width));
}

std::ptrdiff_t deviceOf(const StageHoldings &stage, RankId rank)
{
    return std::find(stage.ranks.begin(), stage.ranks.end(), rank) - stage.ranks.begin();
}

plan::SampleRange samplesAt(const StageHoldings &stage, RankId rank)
{
    return stage.samples[static_cast<std::size_t>(deviceOf(stage, rank))];
}

/// What two ranges have in common.
Shard common(Shard a, Shard b)
{
    const std::int64_t begin = std::max(a.begin, b.begin);
    const std::int64_t end = std::min(a.begin + a.count, b.begin + b.count);
    return {begin, std::max<std::int64_t>(0, end - begin)};
}

} // namespace

Result<std::vector<SharedParameter>> shareParameters(const std::vector<const StageHoldings *> &stages, TeamSets &sets,
                                                     const plan::Exchange &exchange)
{
    return Sharing(stages, sets, exchange).find();
}

void makeBuckets(const std::vector<SharedParameter> &parameters, const FoldedTeams &teams, const plan::Plan &plan,
                 Program &program)
{
    using Key = std::tuple<std::int32_t, int, std::size_t, graph::DType, std::size_t>;
    const std::int64_t bytes = plan.bucketBytes;
    std::vector<Key> keys; // in the order of first appearance
    std::map<Key, std::vector<const SharedParameter *>> byKey;
    for (const SharedParameter &shared : parameters) {
        const std::size_t group = plan.exchange.groupOf(shared.parameter->name, shared.parameter->sizes.size());
        const Key key(shared.set, shared.zero, shared.layer, shared.parameter->type, group);
        if (byKey[key].empty())
            keys.push_back(key);
        byKey[key].push_back(&shared);
    }
    for (const Key &key : keys) {
        const std::vector<TeamId> &parallel = teams.teams(std::get<0>(key));
        const bool alone = program.team(parallel.front()).size() < 2;
        const bool whole = alone || bytes == 0 || std::get<1>(key) > 0;
        for (const auto &chunk : chunksOf(byKey[key], whole ? std::numeric_limits<std::int64_t>::max() : bytes))
            addBuckets(chunk, parallel, plan.exchange.policyOf(std::get<4>(key)), program);
    }
    for (Bucket &bucket : program.buckets)
        finish(bucket, program.team(bucket.team), plan.optimizer.rule.footprint().states);
}

std::vector<BucketId> bucketsOf(const Program &program, RankId rank)
{
    std::vector<BucketId> mine;
    for (std::size_t b = 0; b < program.buckets.size(); ++b) {
        const Team &team = program.team(program.buckets[b].team);
        if (std::binary_search(team.ranks.begin(), team.ranks.end(), rank))
            mine.emplace_back(static_cast<std::int64_t>(b));
    }
    return mine;
}

Shard shardOf(const Program &program, const Bucket &bucket, std::size_t position, int level)
{
    if (bucket.zero < level)
        return {0, bucket.elements};
    const auto members = static_cast<std::int64_t>(program.team(bucket.team).size());
    const std::int64_t each = bucket.elements / members;
    return {static_cast<std::int64_t>(position) * each, each};
}

PersistentLayout layoutPersistent(const std::vector<const StageHoldings *> &stages, RankId rank, const plan::Plan &plan,
                                  Program &program, bool hostStates)
{
    PersistentLayout layout;
    const auto place = [&layout](std::int64_t bytes) {
        const std::int64_t offset = layout.bytes;
        layout.bytes += aligned(bytes);
        return offset;
    };
    const std::vector<BucketId> mine = bucketsOf(program, rank);
    const auto each = [&](auto lay) {
        for (const BucketId b : mine) {
            Bucket &bucket = program.bucket(b);
            lay(bucket, program.team(bucket.team).position(rank));
        }
    };
    const auto floats = [&place](std::int64_t count) { return place(count * graph::sizeOf(graph::DType::F32)); };
    // What operators read lies whole up to ZeRO 2; a master beside a bfloat16 copy is only the optimizer's and is cut
    // with its states.
    each([&](Bucket &bucket, std::size_t at) {
        const bool copied = bucket.type == graph::DType::BF16;
        if (bucket.table.valid())
            bucket.parameters[at] = layTable(program.tables[bucket.table.index()], at, floats);
        else
            bucket.parameters[at] =
                place(shardOf(program, bucket, at, copied ? 1 : 3).count * graph::sizeOf(graph::DType::F32));
        if (copied)
            bucket.copies[at] = place(shardOf(program, bucket, at, 3).count * graph::sizeOf(graph::DType::BF16));
    });
    each([&](Bucket &bucket, std::size_t at) {
        bucket.gradients[at] = place(shardOf(program, bucket, at, 2).count * graph::sizeOf(graph::DType::F32));
        if (bucket.zero == 1)
            bucket.sums[at] = place(shardOf(program, bucket, at, 1).count * graph::sizeOf(graph::DType::F32));
    });
    const auto states = static_cast<std::size_t>(plan.optimizer.rule.footprint().states);
    const auto layStates = [&] {
        for (std::size_t s = 0; s < states; ++s)
            each([&](Bucket &bucket, std::size_t at) {
                if (bucket.table.valid())
                    return;
                bucket.states[s][at] = place(shardOf(program, bucket, at, 1).count * graph::sizeOf(graph::DType::F32));
            });
    };
    if (!hostStates)
        layStates();
    each([&](Bucket &bucket, std::size_t at) {
        if (bucket.table.valid())
            layRows(program.tables[bucket.table.index()], at, states, floats);
    });
    each([&](Bucket &bucket, std::size_t at) {
        if (!bucket.isAveraged() || program.team(bucket.team).size() < 2)
            return;
        bucket.averages[at] = place(bucket.bytes());
        if (plan.exchange.averaging.merge == plan::Merge::Corrected)
            bucket.snapshots[at] = place(bucket.bytes());
    });
    for (const StageHoldings *stage : stages) {
        layout.others.emplace_back();
        for (const HeldTensor &other : stage->others)
            layout.others.back().push_back(place(other.bytes * (other.ofSamples ? samplesAt(*stage, rank).size : 1)));
    }
    if (hostStates) {
        const std::int64_t begin = layout.bytes;
        layStates();
        layout.hostedBytes = layout.bytes - begin;
        layout.bytes = begin;
    }
    return layout;
}

namespace {

/// A table's columns at member @p position. What updates them is no task of the parameters' update.
Held heldColumns(const program::Table &table, std::size_t position)
{
    const program::Table::Member &member = table.members[position];
    Held held;
    held.name = table.parameter;
    held.count = held.updateCount = table.rows * (member.end - member.begin);
    held.offset = member.held;
    held.states = member.states;
    held.saves = table.strategy == plan::TableStrategy::AllToAll || position == 0;
    return held;
}

/// Entry @p entry of @p bucket as member @p position holds it.
Held heldEntry(const Program &program, const Bucket &bucket, const Bucket::Entry &entry, std::size_t position)
{
    if (bucket.table.valid())
        return heldColumns(program.table(bucket.table), position);
    const bool copied = bucket.type == graph::DType::BF16;
    const Shard whole{entry.at, entry.elements};
    const Shard stored = shardOf(program, bucket, position, copied ? 1 : 3);
    const Shard copies = shardOf(program, bucket, position, 3);
    const Shard gradients = shardOf(program, bucket, position, 2);
    const Shard updated = shardOf(program, bucket, position, 1);
    const Shard here = common(whole, stored);
    const Shard own = common(whole, updated);
    const auto offset = [](std::int64_t base, std::int64_t element, Shard from, std::int64_t size) {
        return base + (element - from.begin) * size;
    };
    Held held;
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

} // namespace

namespace {

/// Of a row a sample up to @p last, those of @p own.
void cutToSamples(Held &held, plan::SampleRange own, plan::SampleRange last)
{
    held.ofSamples = true;
    held.sizes.front() = last.begin + last.size;
    held.region.front() = {{own.begin, own.begin + own.size}};
    held.count *= own.size;
    held.saves = true;
}

} // namespace

std::vector<Held> heldBy(const StageHoldings &stage, RankId rank, const std::vector<BucketId> &buckets,
                         const std::vector<std::int64_t> &others, const Program &program)
{
    const auto device = static_cast<int>(deviceOf(stage, rank));
    std::unordered_map<std::string, const HeldParameter *> byName;
    for (const HeldParameter &parameter : stage.parameters)
        byName.emplace(parameter.name, &parameter);
    std::vector<Held> all;
    for (const BucketId b : buckets) {
        const Bucket &bucket = program.bucket(b);
        const std::size_t position = program.team(bucket.team).position(rank);
        for (const Bucket::Entry &entry : bucket.entries) {
            const HeldParameter &parameter = *byName.at(entry.parameter);
            Held held = heldEntry(program, bucket, entry, position);
            held.sizes = parameter.sizes;
            held.region = parameter.table
                ? columnsOf(*parameter.table, static_cast<int>(program.team(bucket.team).size()),
                            static_cast<int>(position))
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
        const HeldTensor &other = stage.others[i];
        Held held;
        held.kind = other.constant ? Held::Kind::Constant : Held::Kind::State;
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
            cutToSamples(held, samplesAt(stage, rank), stage.samples.back());
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
