// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/sharding/mesh.h"

#include <cstdint>
#include <vector>

namespace planloom::sharding {

/// Positions [begin, end) along one axis.
struct Interval {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    friend bool operator==(const Interval &, const Interval &) = default;
};

/// The part of a tensor that a device holds: per axis the positions that it has, ascending. Its elements lie row-major
/// in the order of those. A split with segments has an interval per segment; everything else has one per axis.
using Region = std::vector<std::vector<Interval>>;

/// The part of a tensor of sizes @p sizes that @p device has under @p sbp; B and P have all of it. Sizes divide
/// (shard() checks that).
Region regionOf(const std::vector<std::int64_t> &sizes, const NdSbp &sbp, const Mesh &mesh, int device);
std::int64_t elements(const Region &region);

} // namespace planloom::sharding
