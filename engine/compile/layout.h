// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"
#include "engine/compile/vocabulary.h"

#include <array>
#include <cstdint>
#include <vector>

namespace planloom::compile {

/// Buffers begin at multiples of this many bytes: a cache line, and the widest vector.
inline constexpr std::int64_t kAlignment = 64;
inline std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Places of a stage's tensors within the slots of their areas, and how large those slots are. Persistent is left at
/// size 0: persistent.h lays it out.
struct StageLayout {
    std::vector<Placement> forwardPlaces; ///< per tensor of the training graph
    std::vector<Placement> backwardPlaces;
    std::array<std::int64_t, kAreas> slotBytes{};
    /// Tensors that lie within a persistent one, and how far behind its beginning.
    struct View {
        TensorId id;
        TensorId root;
        std::int64_t offset = 0;
    };
    std::vector<View> views;
};

/// Lays out @p training for slices of @p samples. Tensors that live only within a pass share the workspace by lifetime
/// (greedy, largest first). Cost: O(n^2) in the tensors of the workspace.
/// @p pooled: a memory policy places what forward operators make (pooled.h): such tensors lie in Area::Pool, as far
/// behind the beginning of what they lie in as their offset says.
StageLayout layoutStage(const graph::TrainingGraph &training, std::int64_t samples, bool recompute,
                        bool pooled = false);

/// A block that is needed during steps [first, last] and where it was put.
struct Interval {
    std::int64_t bytes = 0;
    std::int32_t first = 0;
    std::int32_t last = 0;
    std::int64_t offset = 0; ///< out
};
/// Chooses offsets so that blocks alive at the same step do not overlap; returns the bytes in use. Best at placing
/// large blocks first.
std::int64_t packIntervals(std::vector<Interval> &blocks);

/// Sizes for a part of a model that cannot be differentiated here (layer profiles, unknown operators): every activation
/// that operators [first, last) make is kept for backward, @p samples (a fraction is allowed) at a time. Where backward
/// is split (@p splits), half of them, and as much of their gradients, are kept for the gradients of weights.
std::array<std::int64_t, kAreas> estimateSlots(const graph::Graph &graph, const graph::LayerView &layers,
                                               std::size_t firstLayer, std::size_t lastLayer, double samples,
                                               bool recompute, bool splits = false);

} // namespace planloom::compile
