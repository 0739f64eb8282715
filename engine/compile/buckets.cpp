// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/buckets.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace planloom::compile {
namespace {

/// Parameters begin at multiples of so many elements within a bucket: 64 bytes of bfloat16, the narrower of the two
/// types.
constexpr std::int64_t kFlatAlignment = 32;

std::int64_t roundUp(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

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

/// A table that the bucket at the end of @p buckets is of.
void addTable(const RowTable &table, const FoldedTeams &teams, Buckets &buckets)
{
    program::Table made;
    made.bucket = BucketId(std::ssize(buckets.all) - 1);
    made.team = buckets.all.back().team;
    made.parameter = table.parameter;
    made.ids = table.ids;
    made.places = table.places;
    made.rows = table.rows;
    made.columns = table.columns;
    made.idsPerSample = table.idsPerSample;
    made.window = table.window;
    made.strategy = table.strategy;
    made.delays = table.delays;
    const auto members = static_cast<int>(teams.team(made.team).size());
    for (int position = 0; position < members; ++position) {
        const sharding::Region held = heldPart(table, members, position);
        program::Table::Member member;
        member.firstRow = held[0].front().begin;
        member.endRow = held[0].front().end;
        member.begin = held[1].front().begin;
        member.end = held[1].front().end;
        made.members.push_back(std::move(member));
    }
    buckets.all.back().table = TableId(std::ssize(buckets.tables));
    buckets.tables.push_back(std::move(made));
}

/// One bucket for each of the teams of set @p set.
void addBuckets(const std::vector<const SharedParameter *> &parameters, std::int32_t set, const FoldedTeams &teams,
                plan::ExchangePolicy policy, Buckets &buckets)
{
    for (const TeamId team : teams.teams(set)) {
        Bucket bucket = emptyBucket(team, *parameters.front());
        bucket.policy = policy;
        for (const SharedParameter *shared : parameters) {
            bucket.entries.push_back({shared->parameter->name, bucket.elements, shared->parameter->elements});
            bucket.elements += roundUp(shared->parameter->elements, kFlatAlignment);
        }
        buckets.all.push_back(std::move(bucket));
        buckets.inside.push_back(parameters.front()->inside);
        if (parameters.front()->parameter->table)
            addTable(*parameters.front()->parameter->table, teams, buckets);
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

} // namespace

Buckets makeBuckets(const std::vector<SharedParameter> &parameters, const FoldedTeams &teams, const Ranks &ranks,
                    const Source &source)
{
    const plan::Plan &plan = source.plan;
    Buckets buckets;
    using Key = std::tuple<std::int32_t, int, std::size_t, graph::DType, std::size_t>;
    const std::int64_t bytes = source.bucketBytes();
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
        const bool alone = teams.team(teams.teams(std::get<0>(key)).front()).size() < 2;
        const bool whole = alone || bytes == 0 || std::get<1>(key) > 0;
        for (const auto &chunk : chunksOf(byKey[key], whole ? std::numeric_limits<std::int64_t>::max() : bytes))
            addBuckets(chunk, std::get<0>(key), teams, plan.exchange.policyOf(std::get<4>(key)), buckets);
    }
    buckets.ofRank.resize(ranks.size());
    for (std::size_t b = 0; b < buckets.all.size(); ++b) {
        const Team &team = teams.team(buckets.all[b].team);
        finish(buckets.all[b], team, plan.optimizer.rule.footprint().states);
        for (const RankId rank : team.ranks)
            buckets.ofRank[rank.index()].emplace_back(static_cast<std::int64_t>(b));
    }
    return buckets;
}

std::size_t Buckets::parameters() const
{
    std::unordered_set<std::string_view> names;
    for (const Bucket &bucket : all)
        for (const Bucket::Entry &entry : bucket.entries)
            names.insert(entry.parameter);
    return names.size();
}

Shard shardOf(const Bucket &bucket, std::size_t members, std::size_t position, int level)
{
    if (bucket.zero < level)
        return {0, bucket.elements};
    const std::int64_t each = bucket.elements / static_cast<std::int64_t>(members);
    return {static_cast<std::int64_t>(position) * each, each};
}

} // namespace planloom::compile
