// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/layer_profile.h"

namespace planloom::graph {

std::optional<ProfileUnit> profileUnit(const Graph &graph)
{
    if (!isLayerProfile(graph) || graph.ops().empty())
        return std::nullopt;
    const Op &op = graph.ops().front();
    return ProfileUnit{op.number(kProfileBatch, 1), op.number(kMinibatchUnit) == 0};
}

bool worksInPlace(const Op &op) { return op.traits().cost == CostClass::Measured && op.number(kInPlace) != 0; }

} // namespace planloom::graph
