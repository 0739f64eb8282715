// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <optional>
#include <string>
#include <vector>

namespace planloom::plan {

/// Stage @p stage of @p plan, if devices that share the tensors of one replica lie on several nodes.
struct NodeSpan {
    std::size_t stage = 0;
    std::size_t nodes = 0; ///< of the replica that lies on most
    std::size_t parts = 1; ///< the largest number of tensor parts with which all replicas would stay within a node
};
std::optional<NodeSpan> nodeSpan(const Plan &plan, std::size_t stage, const cluster::Cluster &cluster);

/// A sentence for each stage whose tensor parts cross nodes, with what that costs where @p why says it; empty where
/// none do. Such a plan is right, and slow.
std::vector<std::string> nodeSpanNotes(const Plan &plan, const cluster::Cluster &cluster, const Why *why);

} // namespace planloom::plan
