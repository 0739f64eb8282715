// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/buckets.h"
#include "engine/compile/stage_memory.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::compile {

/// A run of a bucket's parameters that lies in the host tier and comes to the pool for its update: the parameters one
/// behind the other, then, where they are there too, each state of the update rule likewise.
struct HostedPart {
    BucketId bucket;
    std::int64_t elements = 0; ///< of the parameters
    bool changes = true;       ///< the update changes it, so that it goes back to the host
    program::HostCopy copy;    ///< `host`: behind the first part
};

/// Those of a rank: Rank::hostedParts.
struct HostedParts {
    /// Where a parameter is in its part.
    struct Place {
        std::int32_t part = 0;
        std::int64_t offset = 0; ///< bytes behind the part's beginning; state s lies (s + 1) x elements floats further
    };
    std::vector<HostedPart> parts;
    std::map<std::string, Place, std::less<>> places; ///< by the parameter's name
    bool states = false;                              ///< these are in the parts
    std::int64_t poolBegin = 0;                       ///< in the arena
    std::int64_t poolBytes = 0;                       ///< that all parts lie in, in turn
    std::int64_t hostBytes = 0;                       ///< of all

    [[nodiscard]] const Place *find(std::string_view parameter) const
    {
        const auto found = places.find(parameter);
        return found == places.end() ? nullptr : &found->second;
    }
    [[nodiscard]] const HostedPart &at(const Place &place) const { return parts[static_cast<std::size_t>(place.part)]; }
};

/// Cuts @p owned, a rank's buckets, into parts and gives them places in a pool of @p poolBytes, or of as much as the
/// largest needs: one behind the other, and from the beginning again where the pool ends. A part takes a quarter of the
/// pool at most, or has one parameter: the next ones come while one is updated. @p states: of the update rule, which
/// go with the parameters. Parameters that @p changes denies are in parts of their own (empty: all change).
HostedParts hostParameters(const std::vector<BucketId> &owned, const Buckets &buckets, std::int64_t states,
                           std::int64_t poolBytes, const std::function<bool(std::string_view parameter)> &changes);

/// The copy of root @p root of @p memory, a parameter, from its part of @p parts (of the rank's arena) to @p place of
/// the pool.
program::HostCopy parameterCopy(const StageMemory &memory, std::int32_t root, std::int64_t place,
                                const HostedParts &hosted, const std::vector<program::HostCopy> &parts);

} // namespace planloom::compile
