// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <cstdint>
#include <string>

// Operators for which a GPU has no kernel: training computes them on the host, with copies there and back
// (executor/device/plugin). A test compares what is said here with what the device library does (tests/gpu).
namespace planloom::cost {

/// Of one run of such an operator.
struct HostCopies {
    std::int64_t copies = 0; ///< commands
    std::int64_t bytes = 0;  ///< there and back
};

/// Whether a GPU has no kernel for @p op: it computes in another type than float32, bfloat16 and truth values, or in a
/// form that no kernel has.
bool hostComputes(const graph::Graph &graph, const graph::Op &op);

/// What is copied for @p op at @p samples samples: its inputs to the host, its outputs and states back.
HostCopies hostCopies(const graph::Graph &graph, const graph::Op &op, std::int64_t samples);

/// "Mod (2), TopK (1)": operators of @p graph that a GPU has no kernel for. Empty: there are none.
std::string hostOperators(const graph::Graph &graph);

} // namespace planloom::cost
