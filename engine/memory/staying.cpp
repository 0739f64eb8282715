// SPDX-License-Identifier: Apache-2.0
#include "engine/memory/staying.h"

#include <algorithm>
#include <utility>

namespace planloom::memory {
namespace {

/// A storage's bytes and the operators that it is there for.
struct Stay {
    std::int32_t storage = 0;
    std::int64_t bytes = 0;
    std::int32_t first = 0;
    std::int32_t last = 0;
    std::int64_t offset = 0;
};

/// The largest first.
std::vector<Stay> staysOf(const Stream &stream)
{
    std::vector<std::int32_t> last(stream.storages.size(), static_cast<std::int32_t>(stream.operators.size()));
    for (std::size_t o = 0; o < stream.operators.size(); ++o)
        for (const std::int32_t dead : stream.operators[o].dies)
            last[static_cast<std::size_t>(dead)] = static_cast<std::int32_t>(o);
    std::vector<Stay> stays;
    for (std::size_t s = 0; s < stream.storages.size(); ++s)
        if (const Storage &storage = stream.storages[s]; storage.producer >= 0 || storage.hosted)
            stays.push_back(
                {static_cast<std::int32_t>(s), storage.bytes, std::max<std::int32_t>(storage.producer, 0), last[s]});
    std::stable_sort(stays.begin(), stays.end(), [](const Stay &a, const Stay &b) { return a.bytes > b.bytes; });
    return stays;
}

} // namespace

std::optional<StayingPlaces> stayingPlaces(const Stream &stream)
{
    constexpr std::size_t kMost = 8192; // a second
    std::vector<Stay> stays = staysOf(stream);
    if (stays.size() > kMost)
        return std::nullopt;
    StayingPlaces made;
    made.offsets.assign(stream.storages.size(), -1);
    std::vector<std::pair<std::int64_t, std::int64_t>> taken; // [begin, end) of those placed, while it is there
    for (std::size_t i = 0; i < stays.size(); ++i) {
        Stay &stay = stays[i];
        taken.clear();
        for (std::size_t j = 0; j < i; ++j)
            if (stays[j].first <= stay.last && stay.first <= stays[j].last)
                taken.emplace_back(stays[j].offset, stays[j].offset + stays[j].bytes);
        std::sort(taken.begin(), taken.end());
        for (const auto &[from, to] : taken) {
            if (from - stay.offset >= stay.bytes)
                break;
            stay.offset = std::max(stay.offset, to);
        }
        made.offsets[static_cast<std::size_t>(stay.storage)] = stay.offset;
        made.bytes = std::max(made.bytes, stay.offset + stay.bytes);
    }
    return made;
}

} // namespace planloom::memory
