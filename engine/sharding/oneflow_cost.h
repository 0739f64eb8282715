// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/sharding/sbp.h"

#include <cstdint>
#include <limits>
#include <vector>

// What OneFlow's planner takes a conversion to cost: the figures of its repository's graph mode, which differ from the paper's table of bytes (boxing.h)
// in penalties and in what it does not do at all. The planner after that system needs them to find the plans that it finds.
namespace planloom::sharding::oneflow {

inline constexpr double kTransfer = 1.65e4; ///< per conversion that is not the identity
inline constexpr double kUnsupported = static_cast<double>(std::numeric_limits<float>::max());
[[nodiscard]] inline bool supported(double cost) { return cost <= 0.8 * kUnsupported; }

/// Devices of a producer or consumer, arranged in one or more dimensions.
using Hierarchy = std::vector<int>;

/// Layouts that share a hierarchy, with its dimensions merged as far as that does not change them.
struct Reduced {
    Hierarchy hierarchy;
    std::vector<NdSbp> layouts;
    friend bool operator==(const Reduced &, const Reduced &) = default;
};
/// Drops dimensions of size 1 and merges neighbours in which all @p layouts have the same component, for a tensor of @p sizes. Splits merge where
/// splitting twice gives the same pieces as splitting once: each piece modulo the joint size is 0, 1 or one less than it.
Reduced reduce(const std::vector<std::int64_t> &sizes, const Hierarchy &hierarchy, const std::vector<NdSbp> &layouts);

/// A tensor that is converted.
struct Conversion {
    std::vector<std::int64_t> sizes;
    double bytes = 0; ///< of the whole tensor
    NdSbp from, to;
    Hierarchy producers, consumers;
    bool sameDevices = true;
};

/// Cost of converting in one step; kUnsupported where the repository refuses: S to P, two dimensions at once, more than two dimensions.
double directCost(const Conversion &conversion);

struct Path {
    double cost = kUnsupported;
    std::vector<NdSbp> middle; ///< layouts in between
};
/// The cheapest way with up to three layouts in between, on the producers' devices, where the direct one is unsupported. Cost: O(layouts^2) direct costs
/// for each layout in between; there are (axes + 2)^dimensions.
Path cheapestPath(const Conversion &conversion);

} // namespace planloom::sharding::oneflow
