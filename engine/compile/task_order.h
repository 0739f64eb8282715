// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/tasks.h"

#include <vector>

namespace planloom::compile {

/// What tasks wait for, and the order in which each rank computes: fields of Program.
struct TaskOrder {
    std::vector<program::Dependency> dependencies;
    std::vector<program::Range> ofTask;             ///< of `dependencies`
    std::vector<std::vector<TaskId>> computeOrders; ///< per rank
};

/// What orderTasks() reads.
struct OrderInput {
    const plan::Plan &plan;
    const Ranks &ranks;
    const Instances &instances;
    const Buckets &buckets;
    const BucketOwners &owners;
    const std::vector<StageParts> &parts;
    bool blocks = false; ///< a rank begins a pass only when what the pass before sends has arrived
};
/// Orders the tasks of @p draft. @p edges: the draft's own.
TaskOrder orderTasks(const OrderInput &in, const TaskDraft &draft, Edges edges);

} // namespace planloom::compile
