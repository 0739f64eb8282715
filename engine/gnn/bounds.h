// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/network.h"

#include <cstdint>
#include <span>

namespace planloom::gnn {

/// What no schedule of a placement can beat, and what the first three transfer policies cannot exceed.
struct Bounds {
    double criticalPath = 0; ///< seconds; every message at min(out, in) of its two cards, or its machine's rate
    double port = 0;         ///< seconds; of the card and direction that needs longest
    std::int32_t portMachine = -1;
    bool portOut = false; ///< the direction: out of the machine, or into it
    /// Δ: most connections with bytes to carry that share one direction of one card, at least 1. Static, Degree and
    /// MaxMin take at most Δ times the critical path: no rate falls below min(out, in) / Δ, and going back from the
    /// last event through what it waited for gives a chain of tasks and messages without a gap. Not where tasks share
    /// cores.
    std::int32_t sharing = 1;

    [[nodiscard]] double lower() const { return criticalPath > port ? criticalPath : port; }
};

/// @p machineOf: per role of the network. The port bound is, for each direction of each card, the earliest start of
/// its messages + their bytes / rate + the least that must follow one of them. Cost: O(steps + dependencies).
Bounds bounds(const Network &network, std::span<const Port> ports, std::span<const std::int32_t> machineOf);

} // namespace planloom::gnn
