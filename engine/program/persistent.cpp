// SPDX-License-Identifier: Apache-2.0
#include "engine/program/persistent.h"

#include "engine/program/layout.h"

#include <algorithm>
#include <unordered_map>

namespace planloom::program {
namespace {

bool holds(const Bucket &bucket, RankId rank) { return std::binary_search(bucket.ranks.begin(), bucket.ranks.end(), rank); }

std::unordered_map<std::string, std::size_t> indexByName(const std::vector<HeldTensor> &tensors)
{
    std::unordered_map<std::string, std::size_t> index;
    for (std::size_t i = 0; i < tensors.size(); ++i)
        index.emplace(tensors[i].name, i);
    return index;
}

} // namespace

std::vector<Bucket> makeBuckets(const std::vector<StageHoldings> &stages)
{
    std::vector<std::string> names;
    std::unordered_map<std::string, std::pair<std::vector<RankId>, std::int64_t>> holders;
    for (const StageHoldings &stage : stages) {
        for (const HeldTensor &parameter : stage.parameters) {
            auto [entry, isNew] = holders.try_emplace(parameter.name);
            if (isNew)
                names.push_back(parameter.name);
            entry->second.first.insert(entry->second.first.end(), stage.ranks.begin(), stage.ranks.end());
            entry->second.second = parameter.bytes;
        }
    }
    std::vector<Bucket> buckets;
    std::map<std::vector<RankId>, std::size_t> bySet;
    for (const std::string &name : names) {
        auto &[ranks, bytes] = holders[name];
        std::sort(ranks.begin(), ranks.end());
        const auto [entry, isNew] = bySet.try_emplace(ranks, buckets.size());
        if (isNew)
            buckets.push_back({ranks, {}, 0, std::vector<std::int64_t>(ranks.size(), -1)});
        buckets[entry->second].parameters.push_back(name);
        buckets[entry->second].bytes += bytes;
    }
    return buckets;
}

PersistentLayout layoutPersistent(const StageHoldings &stage, RankId rank, int moments, std::vector<Bucket> &buckets)
{
    PersistentLayout layout;
    const std::size_t count = stage.parameters.size();
    layout.parameters.resize(count);
    layout.gradients.resize(count);
    layout.states.assign(static_cast<std::size_t>(moments), std::vector<std::int64_t>(count));
    const auto place = [&layout](std::int64_t bytes) {
        const std::int64_t offset = layout.bytes;
        layout.bytes += aligned(bytes);
        return offset;
    };
    for (std::size_t p = 0; p < count; ++p)
        layout.parameters[p] = place(stage.parameters[p].bytes);
    const auto index = indexByName(stage.parameters);
    for (Bucket &bucket : buckets) {
        if (!holds(bucket, rank))
            continue;
        const std::int64_t begin = place(bucket.bytes);
        const auto member = std::lower_bound(bucket.ranks.begin(), bucket.ranks.end(), rank) - bucket.ranks.begin();
        bucket.offsets[static_cast<std::size_t>(member)] = begin;
        std::int64_t next = begin;
        for (const std::string &name : bucket.parameters) {
            const std::size_t p = index.at(name);
            layout.gradients[p] = next;
            next += stage.parameters[p].bytes;
        }
    }
    for (auto &moment : layout.states)
        for (std::size_t p = 0; p < count; ++p)
            moment[p] = place(stage.parameters[p].bytes);
    for (const HeldTensor &other : stage.others)
        layout.others.push_back(place(other.bytes));
    return layout;
}

} // namespace planloom::program
