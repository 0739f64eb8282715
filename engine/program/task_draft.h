// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/site.h"
#include "engine/program/stage_parts.h"

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace planloom::program {

/// A pass of one micro-batch: its first and its last task, the same where nothing cuts it.
struct PassTasks {
    TaskId first, last;
    std::vector<TaskId> runs; ///< all on the compute lane, in order
};

/// The tasks of one body, by what they are.
struct SiteTasks {
    std::vector<PassTasks> forward, recompute, backward, weights; ///< per micro-batch; empty where the stage has no such pass
    std::vector<TaskId> receiveActivation, sendActivation, receiveGradient, sendGradient;
    std::vector<TaskId> lastParts; ///< of the last pass that makes gradients of parameters, runs and boxing
    std::vector<TaskId> exchange; ///< of gradients, before the optimizer
    std::vector<TaskId> restore;  ///< of parameters, behind it
    TaskId optimizer;
};

/// What is known of a program's tasks while they are made, beyond what stays in it: task_builder.cpp makes them, task_order.cpp says what waits for what,
/// task_groups.cpp which of them run together.
struct TaskDraft {
    /// Stage, team, pass, micro-batch, operator: all tasks of one key are one collective.
    using BoxingKey = std::tuple<std::int32_t, std::int32_t, Pass, std::int64_t, std::int32_t>;
    std::vector<StageParts> parts;                       ///< per stage
    std::vector<SiteTasks> sites;                        ///< per body
    std::vector<std::pair<BoxingKey, TaskId>> boxing;
    std::vector<std::pair<TaskId, TaskId>> edges;        ///< (task, what it waits for)

    void depend(TaskId task, TaskId on)
    {
        if (task.valid() && on.valid())
            edges.emplace_back(task, on);
    }
};

/// Says what waits for what, in which order each rank computes, and writes the dependencies down.
void orderTasks(Compilation &all, TaskDraft &draft);

/// Joins both ends of every message and all members of every collective.
void groupTasks(Compilation &all, TaskDraft &draft);

} // namespace planloom::program
