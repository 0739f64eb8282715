// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/annotation.h"

namespace planloom::planners::whale {

/// Layout of tensors at the border of a task graph: samples divided, or tensors cut along an axis of
/// theirs.
struct Layout {
    plan::Annotation::Kind kind = plan::Annotation::Kind::Replicate;
    int parts = 1;
    int axis = 0; ///< that is cut: 0, the samples, of replicas
};

/// The bridge between two task graphs (Whale §3.2.3).
struct Bridge {
    bool gathers = false;    ///< the consumer's devices see the whole tensor: parts are collected
    bool partitions = false; ///< and cut anew
    bool fused = false;      ///< gather and partition cancel out: both are left out
    double bytes = 0;        ///< that each device of the producer receives in the gather
};

/// The bridge for a tensor of @p bytes. A gather over n parts brings each device the (n - 1) / n that it does not have;
/// backward it is the slice, or the reduce-scatter, of as much.
Bridge bridgeBetween(const Layout &producer, const Layout &consumer, double bytes);

} // namespace planloom::planners::whale
