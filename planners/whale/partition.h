// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

// Cutting a model into task graphs (Whale §3.2.2 and §3.3.2; the bucket rules of the released EPL).
namespace planloom::planners::whale {

/// A run of items that begins at `first`, and the sum of its weights.
struct Bucket {
    std::size_t first = 0;
    double total = 0;
    friend bool operator==(const Bucket &, const Bucket &) = default;
};

/// Fills buckets of @p capacity from left to right; an item that is larger than the capacity stands alone in one.
/// Nothing if more than @p most buckets come out.
std::optional<std::vector<Bucket>> fillBuckets(const std::vector<double> &weights, double capacity, std::size_t most);

/// The buckets of the smallest capacity, counted up from total / parts, that need at most @p parts of them. Weights
/// that spread over more than 100 are scaled first so that the largest is 100, as capacities are counted through in
/// whole numbers; totals are of the weights as given.
std::vector<Bucket> smallestBuckets(std::vector<double> weights, std::size_t parts);

/// Whether part @p index may hold items [first, last): its devices have the memory.
using PartFits = std::function<bool(std::size_t index, std::size_t first, std::size_t last)>;

/// Cuts so that each part's weight is in proportion to the speed of its devices: a walk over the items that ends a part
/// where its target is nearest. Then boundaries move from parts that do not fit towards the nearest one with room.
/// Returns the first items of the parts after the first; nothing if the walk finds no cut that fits (there may be one).
/// Needs parts <= items. O(parts * items) questions.
std::optional<std::vector<std::size_t>> walkCuts(const std::vector<double> &weights, const std::vector<double> &speeds,
                                                 const PartFits &fits);

/// The same aim without the walk: the least time of the slowest part, weight over speed, among all cuts that fit.
/// Nothing if there is none. O(parts * items^2).
std::optional<std::vector<std::size_t>> exactCuts(const std::vector<double> &weights, const std::vector<double> &speeds,
                                                  const PartFits &fits);

} // namespace planloom::planners::whale
