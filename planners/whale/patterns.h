// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/graph/graph.h"
#include "engine/graph/layers.h"
#include "engine/sharding/sbp.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

// Sharding patterns of a split task graph (Whale §3.2.2): the axis along which each unit's weights are cut, by the
// least communication.
namespace planloom::planners::whale {

/// Which patterns a task graph is split by.
enum class PatternChoice : std::uint8_t {
    Least,  ///< whichever of the following moves the fewest bytes
    Single, ///< operator by operator: columns for whole inputs, rows for inputs that are already split
    Layers, ///< attention and feed-forward layers as units of their own, where the model has them, and the rest
            ///< operator by operator
};

/// The patterns of a task graph over @p parts devices.
struct Patterns {
    std::map<std::string, sharding::NdSbp> pins; ///< parameters, for a mesh {replicas, parts}: "B,S(1)"
    double bytes = 0;                            ///< that all devices send for one sample, forward and backward
    double splitShare = 0;                       ///< split fraction of the parameters' bytes
};

/// Parameters that operators of layers inside [first, last) read and operators of other layers, too: tied weights.
std::set<std::string> sharedParameters(const graph::Graph &graph, const graph::LayerView &layers, std::size_t first,
                                       std::size_t last);

/// A walk over the operators of @p layers [first, last) in topological order. An operator with a weight takes the
/// signature with split weight that costs the least boxing (engine/sharding) of its inputs and for the sum of its
/// outputs; one without follows its inputs. Where the least is sought, both walks are sharded as they would run and
/// their boxing is counted. Error: Unsupported, naming @p scope and the largest number of parts below that divides, if
/// no weight can be split. Parameters in @p whole are not split: other task graphs have them, too.
Result<Patterns> choosePatterns(const graph::Graph &graph, const graph::LayerView &layers, std::size_t first,
                                std::size_t last, int parts, PatternChoice choice, const std::string &scope,
                                const std::set<std::string> &whole = {});

} // namespace planloom::planners::whale
