// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace planloom::planners {

/// Seconds of part @p index made of items [first, last), with whatever it costs to reach it.
using PartCost = std::function<double(std::size_t index, std::size_t first, std::size_t last)>;

/// Cuts @p items into @p parts contiguous, non-empty parts so that the largest cost is as small as can be; among equals
/// the earliest cuts. Returns the parts - 1 first items of the parts after the first, whatever they are where every way
/// has an infinite cost. Needs 1 <= parts <= items. Dynamic programme over (part, end): O(parts * items^2) calls.
std::vector<std::size_t> balancedCuts(std::size_t items, std::size_t parts, const PartCost &cost);

} // namespace planloom::planners
