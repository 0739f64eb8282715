// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <optional>

namespace planloom::graph {

// Attributes of a ProfiledLayer beside its times.
inline constexpr const char *kProfileBatch = "profile_batch"; ///< samples that its times are of
inline constexpr const char *kInPlace = "in_place"; ///< 1: its output takes the place of its input; left out elsewhere
inline constexpr const char *kMinibatchUnit =
    "minibatch_unit"; ///< 1: the profile does not name the samples that its times are of

/// What the times of a layer profile are of.
struct ProfileUnit {
    double samples = 1; ///< of a row
    bool said = true;   ///< false: a row is one minibatch, which stands for one sample
};

/// Nothing for other graphs than layer profiles.
std::optional<ProfileUnit> profileUnit(const Graph &graph);

/// True if memory for @p op's outputs is its input's: layers of a profile that work in place or are views.
bool worksInPlace(const Op &op);

} // namespace planloom::graph
