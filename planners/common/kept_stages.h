// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

#include <cstddef>
#include <string>
#include <vector>

namespace planloom::planners {

/// What of a pipeline the user wants to keep when it is planned anew (option `keep`): stages as they are, by their
/// layers and their number of devices, and cuts between stages. Which devices a stage gets is the planner's.
struct KeptStages {
    /// Layers [first, last) are one stage on so many devices.
    struct Run {
        std::size_t first = 0;
        std::size_t last = 0;
        std::size_t devices = 0; ///< 0: any number
        friend bool operator==(const Run &, const Run &) = default;
    };
    std::vector<Run> runs;         ///< in the order of layers; they do not overlap
    std::vector<std::size_t> cuts; ///< a stage begins with this layer; ascending

    [[nodiscard]] bool empty() const { return runs.empty() && cuts.empty(); }
    /// Whether layers [first, last) may be a stage; @p devices: on so many (0: some number). Cost: O(runs + cuts).
    [[nodiscard]] bool allows(std::size_t first, std::size_t last, std::size_t devices = 0) const;
    [[nodiscard]] bool allows(const plan::Plan &plan) const;
    /// Layers that stages have to begin with, ascending: those of cuts, and the ends of runs, but 0 and @p layers.
    [[nodiscard]] std::vector<std::size_t> edges(std::size_t layers) const;
    /// That @p layers layers can be cut into.
    [[nodiscard]] std::size_t mostStages(std::size_t layers) const;
    friend bool operator==(const KeptStages &, const KeptStages &) = default;
};

inline constexpr const char *kKeepOption = "keep";
/// How planners that take it list it.
OptionInfo keepOption();

/// "0-11:4,24" and back: layers 0 to 11 stay one stage on four devices, and some stage begins with layer 24. Without
/// ":4" the number of devices is free.
std::string textOf(const KeptStages &kept);
/// Option `keep` of @p options; nothing where it is not set, or "none". Error (BadInput): another form, layers that a
/// model of
/// @p layers layers has not, stages that overlap, a cut inside of a stage that is kept.
Result<KeptStages> keptStages(const Options &options, std::size_t layers);

} // namespace planloom::planners
