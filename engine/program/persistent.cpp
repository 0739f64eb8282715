// SPDX-License-Identifier: Apache-2.0
#include "engine/program/persistent.h"

#include "engine/program/layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

namespace planloom::program {
namespace {

/// Parameters begin at multiples of so many elements within a bucket: 64 bytes of bfloat16, the narrower of the two types.
constexpr std::int64_t kFlatAlignment = 32;

std::int64_t roundUp(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

/// The devices of @p mesh that differ in the dimensions @p over only, for each choice of the others.
std::vector<std::vector<int>> teamsOver(const sharding::Mesh &mesh, const std::vector<int> &over)
{
    std::map<std::vector<int>, std::vector<int>> byRest;
    for (int device = 0; device < mesh.devices(); ++device) {
        std::vector<int> rest = mesh.coordinates(device);
        for (const int dimension : over)
            rest[static_cast<std::size_t>(dimension)] = 0;
        byRest[rest].push_back(device);
    }
    std::vector<std::vector<int>> teams;
    for (auto &[rest, devices] : byRest)
        teams.push_back(std::move(devices));
    return teams;
}

/// One use of a parameter by a stage.
struct Use {
    std::size_t stage = 0;
    const HeldParameter *parameter = nullptr;
};

/// Makes the buckets of a whole program.
class BucketMaker {
public:
    BucketMaker(const std::vector<StageHoldings> &stages, Program &program) : m_stages(stages), m_program(program) {}

    Status make()
    {
        for (std::size_t s = 0; s < m_stages.size(); ++s) {
            for (const HeldParameter &parameter : m_stages[s].parameters) {
                auto &uses = m_uses[parameter.name];
                if (uses.empty())
                    m_names.push_back(&parameter.name);
                uses.push_back({s, &parameter});
            }
        }
        for (const std::string *name : m_names)
            if (const Status added = add(m_uses[*name]); !added)
                return added;
        for (Bucket &bucket : m_program.buckets)
            finish(bucket);
        return {};
    }

private:
    using Key = std::tuple<std::vector<std::size_t>, std::vector<std::vector<RankId>>, int, std::size_t, graph::DType>; ///< stages, teams, ...

    Status add(const std::vector<Use> &uses)
    {
        std::vector<std::vector<RankId>> teams;
        std::vector<std::size_t> stages;
        for (const Use &use : uses) {
            if (const Status joined = join(uses.front(), use, teams); !joined)
                return joined;
            stages.push_back(use.stage);
        }
        for (auto &team : teams) { // a rank that has several of the stages holds the parameter once
            std::sort(team.begin(), team.end());
            team.erase(std::unique(team.begin(), team.end()), team.end());
        }
        const HeldParameter &parameter = *uses.front().parameter;
        const bool alone = teams.front().size() < 2;
        const int zero = alone ? 0 : std::min(m_stages[uses.front().stage].zero, uses.size() > 1 ? 1 : 3);
        // What one gather brings is what one layer needs.
        const std::size_t layer = zero >= 2 ? parameter.layer + 1 : 0;
        const auto [entry, isNew] = m_byKey.try_emplace(Key(stages, teams, zero, layer, parameter.type), m_program.buckets.size());
        for (std::size_t t = 0; t < teams.size(); ++t) {
            if (isNew)
                m_program.buckets.push_back(emptyBucket(teams[t], zero, parameter.type));
            Bucket &bucket = m_program.buckets[entry->second + t];
            bucket.entries.push_back({parameter.name, bucket.elements, parameter.elements});
            bucket.elements += roundUp(parameter.elements, kFlatAlignment);
        }
        return {};
    }

    /// Adds the ranks of one stage's use to the teams.
    Status join(const Use &first, const Use &use, std::vector<std::vector<RankId>> &teams) const
    {
        const StageHoldings &stage = m_stages[use.stage];
        const auto own = teamsOver(stage.mesh, use.parameter->reduceOver);
        if (teams.empty())
            teams.resize(own.size());
        const bool fits = teams.size() == own.size() && use.parameter->elements == first.parameter->elements && use.parameter->type == first.parameter->type
            && sameParts(first, use, own);
        if (!fits)
            return unsupported("parameter " + use.parameter->name + " is used by stages " + std::to_string(first.stage) + " and " + std::to_string(use.stage)
                               + ", which cut it differently; give both the same mesh beyond its first dimension and the same sharding, or put both uses into one stage");
        for (std::size_t t = 0; t < own.size(); ++t)
            for (const int device : own[t])
                teams[t].push_back(stage.ranks[static_cast<std::size_t>(device)]);
        return {};
    }

    [[nodiscard]] bool sameParts(const Use &first, const Use &use, const std::vector<std::vector<int>> &teams) const
    {
        const auto others = teamsOver(m_stages[first.stage].mesh, first.parameter->reduceOver);
        for (std::size_t t = 0; t < teams.size() && t < others.size(); ++t) {
            const auto a = sharding::regionOf(first.parameter->sizes, first.parameter->sbp, m_stages[first.stage].mesh, others[t].front());
            const auto b = sharding::regionOf(use.parameter->sizes, use.parameter->sbp, m_stages[use.stage].mesh, teams[t].front());
            if (a != b)
                return false;
        }
        return true;
    }

    Bucket emptyBucket(const std::vector<RankId> &ranks, int zero, graph::DType type)
    {
        const auto [entry, isNew] = m_teams.try_emplace(ranks, static_cast<std::int32_t>(m_program.teams.size()));
        if (isNew)
            m_program.teams.push_back({ranks});
        Bucket bucket;
        bucket.team = entry->second;
        bucket.zero = zero;
        bucket.type = type;
        return bucket;
    }

    void finish(Bucket &bucket)
    {
        const std::size_t members = m_program.teams[static_cast<std::size_t>(bucket.team)].ranks.size();
        if (bucket.zero > 0)
            bucket.elements = roundUp(bucket.elements, kFlatAlignment * static_cast<std::int64_t>(members));
        for (auto *offsets : {&bucket.parameters, &bucket.copies, &bucket.gradients, &bucket.sums, &bucket.moments[0], &bucket.moments[1]})
            offsets->assign(members, -1);
    }

    const std::vector<StageHoldings> &m_stages;
    Program &m_program;
    std::vector<const std::string *> m_names; ///< in the order of first appearance
    std::unordered_map<std::string, std::vector<Use>> m_uses;
    std::map<Key, std::size_t> m_byKey;
    std::map<std::vector<RankId>, std::int32_t> m_teams;
};

/// What two ranges have in common.
Shard common(Shard a, Shard b)
{
    const std::int64_t begin = std::max(a.begin, b.begin);
    const std::int64_t end = std::min(a.begin + a.count, b.begin + b.count);
    return {begin, std::max<std::int64_t>(0, end - begin)};
}

} // namespace

Status makeBuckets(const std::vector<StageHoldings> &stages, Program &program) { return BucketMaker(stages, program).make(); }

std::vector<std::int32_t> bucketsOf(const Program &program, RankId rank)
{
    std::vector<std::int32_t> mine;
    for (std::size_t b = 0; b < program.buckets.size(); ++b) {
        const Team &team = program.teams[static_cast<std::size_t>(program.buckets[b].team)];
        if (std::binary_search(team.ranks.begin(), team.ranks.end(), rank))
            mine.push_back(static_cast<std::int32_t>(b));
    }
    return mine;
}

Shard shardOf(const Program &program, const Bucket &bucket, std::size_t position, int level)
{
    if (bucket.zero < level)
        return {0, bucket.elements};
    const auto members = static_cast<std::int64_t>(program.teams[static_cast<std::size_t>(bucket.team)].ranks.size());
    const std::int64_t each = bucket.elements / members;
    return {static_cast<std::int64_t>(position) * each, each};
}

PersistentLayout layoutPersistent(const std::vector<const StageHoldings *> &stages, RankId rank, int moments, Program &program)
{
    PersistentLayout layout;
    const auto place = [&layout](std::int64_t bytes) {
        const std::int64_t offset = layout.bytes;
        layout.bytes += aligned(bytes);
        return offset;
    };
    const std::vector<std::int32_t> mine = bucketsOf(program, rank);
    const auto each = [&](auto lay) {
        for (const std::int32_t b : mine) {
            Bucket &bucket = program.buckets[static_cast<std::size_t>(b)];
            lay(bucket, program.teams[static_cast<std::size_t>(bucket.team)].position(rank));
        }
    };
    // What operators read lies whole up to ZeRO 2; a master beside a bfloat16 copy is only the optimizer's and is cut with its moments.
    each([&](Bucket &bucket, std::size_t at) {
        const bool copied = bucket.type == graph::DType::BF16;
        bucket.parameters[at] = place(shardOf(program, bucket, at, copied ? 1 : 3).count * graph::sizeOf(graph::DType::F32));
        if (copied)
            bucket.copies[at] = place(shardOf(program, bucket, at, 3).count * graph::sizeOf(graph::DType::BF16));
    });
    each([&](Bucket &bucket, std::size_t at) {
        bucket.gradients[at] = place(shardOf(program, bucket, at, 2).count * graph::sizeOf(graph::DType::F32));
        if (bucket.zero == 1)
            bucket.sums[at] = place(shardOf(program, bucket, at, 1).count * graph::sizeOf(graph::DType::F32));
    });
    for (int m = 0; m < moments; ++m)
        each([&](Bucket &bucket, std::size_t at) { bucket.moments[m][at] = place(shardOf(program, bucket, at, 1).count * graph::sizeOf(graph::DType::F32)); });
    for (const StageHoldings *stage : stages) {
        layout.others.emplace_back();
        for (const HeldTensor &other : stage->others)
            layout.others.back().push_back(place(other.bytes));
    }
    return layout;
}

namespace {

/// Entry @p entry of @p bucket as member @p position holds it.
Held heldEntry(const Program &program, const Bucket &bucket, const Bucket::Entry &entry, std::size_t position, int moments)
{
    const bool copied = bucket.type == graph::DType::BF16;
    const Shard whole{entry.at, entry.elements};
    const Shard stored = shardOf(program, bucket, position, copied ? 1 : 3);
    const Shard copies = shardOf(program, bucket, position, 3);
    const Shard gradients = shardOf(program, bucket, position, 2);
    const Shard updated = shardOf(program, bucket, position, 1);
    const Shard here = common(whole, stored);
    const Shard own = common(whole, updated);
    const auto offset = [](std::int64_t base, std::int64_t element, Shard from, std::int64_t size) { return base + (element - from.begin) * size; };
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
    held.gradient = bucket.zero == 1 ? offset(bucket.sums[position], own.begin, updated, 4) : offset(bucket.gradients[position], own.begin, gradients, 4);
    for (int m = 0; m < moments; ++m)
        held.moments[m] = offset(bucket.moments[m][position], own.begin, updated, 4);
    held.saves = bucket.zero > 0 || position == 0;
    return held;
}

} // namespace

std::vector<Held> heldBy(const StageHoldings &stage, RankId rank, int moments, const std::vector<std::int32_t> &buckets, const std::vector<std::int64_t> &others,
                         const Program &program)
{
    const auto device = static_cast<int>(std::find(stage.ranks.begin(), stage.ranks.end(), rank) - stage.ranks.begin());
    std::unordered_map<std::string, const HeldParameter *> byName;
    for (const HeldParameter &parameter : stage.parameters)
        byName.emplace(parameter.name, &parameter);
    std::vector<Held> all;
    for (const std::int32_t b : buckets) {
        const Bucket &bucket = program.buckets[static_cast<std::size_t>(b)];
        const std::size_t position = program.teams[static_cast<std::size_t>(bucket.team)].position(rank);
        for (const Bucket::Entry &entry : bucket.entries) {
            const HeldParameter &parameter = *byName.at(entry.parameter);
            Held held = heldEntry(program, bucket, entry, position, moments);
            held.sizes = parameter.sizes;
            held.region = sharding::regionOf(parameter.sizes, parameter.sbp, stage.mesh, device);
            if (!parameter.trains)
                held.gradient = -1;
            // Teams that hold the same part, because it is not summed over what they differ in, save it once.
            for (std::size_t d = 0; d < parameter.sbp.size(); ++d) {
                const bool reduced = std::find(parameter.reduceOver.begin(), parameter.reduceOver.end(), static_cast<int>(d)) != parameter.reduceOver.end();
                if (!reduced && parameter.sbp[d].kind == sharding::Sbp::Kind::Broadcast && stage.mesh.coordinates(device)[d] != 0)
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
        for (const std::int64_t size : other.sizes)
            held.region.push_back({{0, size}});
        all.push_back(std::move(held));
    }
    return all;
}

} // namespace planloom::program
