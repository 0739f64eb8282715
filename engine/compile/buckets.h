// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/fold.h"
#include "engine/compile/sharing.h"

#include <cstdint>
#include <vector>

namespace planloom::compile {

/// The buckets of a program, and its tables that are exchanged by rows.
struct Buckets {
    std::vector<Bucket> all;
    std::vector<std::int32_t> inside; ///< per bucket: SharedParameter::inside
    std::vector<program::Table> tables;
    std::vector<std::vector<BucketId>> ofRank; ///< those that a rank is a member of, in order

    [[nodiscard]] const Bucket &at(BucketId id) const { return all[id.index()]; }
    [[nodiscard]] const program::Table &table(TableId id) const { return tables[id.index()]; }
    /// The number of names in Program::parameters().
    [[nodiscard]] std::size_t parameters() const;
};

/// Groups parameters that the same teams exchange, in one group of the plan's exchange; with ZeRO 2 and 3 also by
/// layer, as that is what is gathered at a time; without ZeRO into buckets of about Source::bucketBytes (0: one) in the
/// order in which gradients become ready, so that exchange begins before the last backward pass ends. Parallel buckets,
/// one per team of a set, follow each other and have the same entries. The parameters of a bucket are used by the same
/// stages. A table that is exchanged by rows has a bucket of its own. Nothing has a place in an arena yet
/// (persistent.h).
Buckets makeBuckets(const std::vector<SharedParameter> &parameters, const FoldedTeams &teams, const Ranks &ranks,
                    const Source &source);

/// The range of elements that one of @p members of @p bucket, that at @p position, has of what is cut at ZeRO level
/// @p level.
struct Shard {
    std::int64_t begin = 0;
    std::int64_t count = 0;
};
Shard shardOf(const Bucket &bucket, std::size_t members, std::size_t position, int level);

} // namespace planloom::compile
