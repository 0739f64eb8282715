// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace planloom::planners::spp {

inline constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Bytes/s between each pair of devices, symmetric, row-major; the diagonal is not read.
struct Bandwidths {
    std::size_t devices = 0;
    std::vector<double> values;

    [[nodiscard]] double between(std::size_t a, std::size_t b) const { return values[a * devices + b]; }
};

/// One step of the recursion: `members` (in their final order) were cut into two sides joined by `weight` bytes/s in
/// all.
struct Cut {
    std::vector<std::size_t> members;
    std::size_t left = 0; ///< members of the first side
    double weight = 0;
    std::size_t depth = 0;
};

/// A line of devices, and the cuts that led to it.
struct DeviceOrder {
    std::vector<std::size_t> devices;
    std::vector<Cut> cuts; ///< parents before their parts
};

/// A line of devices in which well-connected ones are neighbours (SPP, recursive device ordering): the global minimum
/// cut (Stoer and Wagner, 1997) splits the devices, each side is ordered by itself, and the sides are turned so that
/// the pair where they meet is the widest of the four. Equal cuts: the more even one, then the one with the lowest
/// devices; equal turns: the first of as is, second turned, first turned, both. Cost: O(devices^4).
DeviceOrder recursiveOrder(const Bandwidths &bandwidths);

} // namespace planloom::planners::spp
