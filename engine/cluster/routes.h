// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/cluster.h"

namespace planloom::cluster {

/// Routes over @p links between @p vertexCount vertices. Error: BadInput where the links form so large a mesh that a routing table
/// would not be reasonable. Cost: O(vertices + links) for trees, plus O(core * (core + its links)).
Result<Routes> makeRoutes(std::size_t vertexCount, std::span<const Link> links);

/// Links from vertex @p from to vertex @p to; empty if they are equal or there is no way.
std::vector<std::size_t> routeBetween(const Routes &routes, std::span<const Link> links, std::size_t from, std::size_t to);

} // namespace planloom::cluster
