// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace planloom::planners::pipedream {

/// One layer as the search sees it.
struct Layer {
    double seconds = 0; ///< forward and backward of one micro-batch
    double outputBytes = 0;
    double parameterBytes = 0;
    std::vector<std::size_t> inputs; ///< layers that it reads
};

/// The layers computed before a cut of the model: a set closed under the reads of its members. A chain has one
/// state per layer; branches have more, because a cut may go through them at different depths.
struct State {
    std::vector<std::uint64_t> layers; ///< one bit a layer
    double seconds = 0;                ///< of all its layers
    double parameterBytes = 0;
    double outputBytes = 0; ///< of the layers that later ones read, or that none reads

    [[nodiscard]] bool holds(std::size_t layer) const { return (layers[layer / 64] >> (layer % 64) & 1U) != 0; }
    /// True if every layer of @p other is in this state too.
    [[nodiscard]] bool includes(const State &other) const;
};

/// All states but the empty one, fewest layers first; none if there are more than @p most. O(states * layers * edges).
std::optional<std::vector<State>> allStates(const std::vector<Layer> &layers, std::size_t most);

/// The states of the layers in their order: each holds one layer more than the one before.
std::vector<State> prefixStates(const std::vector<Layer> &layers);

} // namespace planloom::planners::pipedream
