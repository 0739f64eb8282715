// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/hosted_parts.h"

#include "engine/compile/layout.h"
#include "engine/memory/host_blocks.h"

#include <algorithm>

namespace planloom::compile {
namespace {

/// Where the entry behind @p entry of @p bucket begins, in elements.
std::int64_t endOf(const Bucket &bucket, std::size_t entry)
{
    return entry + 1 < bucket.entries.size() ? bucket.entries[entry + 1].at : bucket.elements;
}

} // namespace

HostedParts hostParameters(const std::vector<BucketId> &owned, const Buckets &buckets, std::int64_t states,
                           std::int64_t poolBytes, const std::function<bool(std::string_view)> &changes)
{
    constexpr std::int64_t kParts = 4; // in the pool at once
    HostedParts made;
    made.states = states > 0;
    const std::int64_t elementBytes = (1 + states) * graph::sizeOf(graph::DType::F32);
    const std::int64_t most = poolBytes / kParts;
    for (const BucketId b : owned) {
        const Bucket &bucket = buckets.at(b);
        std::int64_t begin = 0;
        for (std::size_t e = 0; e < bucket.entries.size(); ++e) {
            const std::int64_t end = endOf(bucket, e);
            const bool moves = states > 0 || !changes || changes(bucket.entries[e].parameter); // states change anyway
            if (made.parts.empty() || made.parts.back().bucket != b || made.parts.back().changes != moves
                || (end - begin) * elementBytes > most) {
                begin = bucket.entries[e].at;
                made.parts.push_back({b, 0, moves, {}});
            }
            HostedPart &part = made.parts.back();
            made.places[bucket.entries[e].parameter] = {static_cast<std::int32_t>(made.parts.size()) - 1,
                                                        (bucket.entries[e].at - begin)
                                                            * graph::sizeOf(graph::DType::F32)};
            part.elements = end - begin;
            part.copy.bytes = aligned(part.elements * elementBytes);
        }
    }
    for (const HostedPart &part : made.parts)
        made.poolBytes = std::max(made.poolBytes, part.copy.bytes);
    made.poolBytes = std::max(made.poolBytes, poolBytes);
    std::int64_t next = 0;
    for (HostedPart &part : made.parts) {
        part.copy.place = next + part.copy.bytes > made.poolBytes ? 0 : next;
        next = part.copy.place + part.copy.bytes;
        part.copy.host = made.hostBytes;
        made.hostBytes += memory::wholeHostBlocks(part.copy.bytes); // files' blocks
    }
    return made;
}

program::HostCopy parameterCopy(const StageMemory &memory, std::int32_t root, std::int64_t place,
                                const HostedParts &hosted, const std::vector<program::HostCopy> &parts)
{
    const auto r = static_cast<std::size_t>(root);
    const HostedParts::Place &own =
        hosted.places.at(memory.parameters[r - static_cast<std::size_t>(memory.activations)]);
    return {memory.roots[r], place, parts[static_cast<std::size_t>(own.part)].host + own.offset, memory.bytes[r], true};
}

} // namespace planloom::compile
