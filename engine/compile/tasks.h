// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/bodies.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace planloom::compile {

/// A pass of one micro-batch: its first and its last task, the same where nothing cuts it.
struct PassTasks {
    TaskId first, last;
    std::vector<TaskId> runs; ///< all on the compute lane, in order, where there are several

    void add(TaskId run)
    {
        if (!first.valid())
            first = run;
        else if (runs.empty())
            runs = {first, run};
        else
            runs.push_back(run);
        last = run;
    }
};

/// The tasks that average a bucket's parameters (plan::DelayedAveraging).
struct Averaging {
    TaskId snapshot, average, merge;
};

/// The tasks of a bucket whose sum may end in the next step (plan::Exchange::acrossSteps).
struct LateSum {
    TaskId exchange, update;
    TaskId reader; ///< the run that reads the parameters first; none: it is not known
};

/// The tasks of a table that is exchanged by rows (program::Table); those that it has not are none.
struct RowTasks {
    TaskId lookUp, forward;           ///< rows to those that look them up
    TaskId collect, backward, update; ///< gradients of all rows, or of prior ones, to those that hold them
    TaskId delayed, updateDelayed;    ///< of the others, of the step before
    TaskId reader;       ///< the run of the first forward pass that reads the rows first; none: it is not known
    TaskId gradientDone; ///< the run of the last pass behind which the gradient is there; none: the whole pass
};

/// The tasks that update a part of the parameters that lie on the host (HostedPart).
struct PartTasks {
    TaskId bring, update, leave; ///< leave: none where the update leaves it as it is
    /// Of the earlier parts whose place it has the last one, and the last that leaves: the others are gone before.
    std::vector<std::size_t> awaits;

    /// Behind which its place is free.
    [[nodiscard]] TaskId last() const { return leave.valid() ? leave : update; }
};

/// The tasks of one body, by kind.
struct BodyTasks {
    std::vector<PassTasks> forward, recompute, backward,
        weights; ///< per micro-batch; empty where the stage has no such pass
    std::vector<TaskId> receiveActivation, sendActivation, receiveGradient, sendGradient;
    std::vector<TaskId> lastParts;    ///< of the last pass that makes gradients of parameters: per part, its last run
    std::vector<TaskId> firstParts;   ///< of the first forward pass: per part, its first run
    std::vector<TaskId> exchange;     ///< of gradients, before the optimizer
    std::vector<LateSum> lateSums;    ///< of gradients, per bucket
    std::vector<Averaging> averaging; ///< of parameters, per bucket
    std::vector<RowTasks> rows;       ///< per table
    std::vector<TaskId> restore;      ///< of parameters, behind it
    std::vector<TaskId> updates;      ///< per phase; empty: the body updates nothing
    std::vector<TaskId> copiesOut;    ///< of activations, to the host
    TaskId bringStates, leaveStates;  ///< of the optimizer, from the host and back
    std::vector<PartTasks> parts;     ///< of parameters on the host, in the order of their updates
};

/// What tasks wait for.
struct Edges {
    std::vector<std::pair<TaskId, TaskId>> inStep;               ///< (task, the one that it waits for)
    std::vector<std::pair<TaskId, program::Dependency>> carried; ///< those on tasks of earlier steps

    void depend(TaskId task, TaskId on)
    {
        if (task.valid() && on.valid())
            inStep.emplace_back(task, on);
    }
    void depend(TaskId task, TaskId on, std::int32_t stepsBack)
    {
        if (stepsBack == 0)
            depend(task, on);
        else
            carried.push_back({task, {on, stepsBack}});
    }
};

/// The tasks of a program, and what the passes behind them have to know of them.
struct TaskDraft {
    // Fields of Program, and of program::Rank.
    struct OfRank {
        std::vector<TaskId> tasks;
        std::vector<program::MemoryDecision> decisions;
        std::vector<program::MovedTensor> moved;
    };
    std::vector<Task> tasks; ///< without dependencies and groups
    std::vector<program::Effect> effects;
    std::vector<program::Cadence> cadences;
    std::int32_t periodSteps = 1;
    std::int64_t steadyFrom = 0;
    std::int32_t openSteps = 0;
    std::vector<program::HostCopy> hostCopies;
    PooledCalls pooled;
    std::vector<OfRank> ranks;

    /// Stage, team, pass, micro-batch, operator: all tasks of one key are one collective.
    using BoxingKey = std::tuple<std::int32_t, TeamId, Pass, std::int64_t, std::int32_t>;
    std::vector<BodyTasks> bodies;
    std::vector<std::pair<BoxingKey, TaskId>> boxing;            ///< sorted
    std::vector<TaskId> agreeOnStep, agreeOnNorm, agreeOnUpdate; ///< per rank; empty: nothing to agree on
    Edges edges;                                                 ///< within passes and of copies

    [[nodiscard]] const Task &task(TaskId id) const { return tasks[id.index()]; }
};

/// What the draft of the tasks is made of.
struct TaskInput {
    const Source &source;
    const Samples &samples;
    const std::vector<StageModel> &stages;
    const Ranks &ranks;
    const Instances &instances;
    const FoldedTeams &teams;
    const Buckets &buckets;
    const BucketOwners &owners;
    const std::vector<StageParts> &parts;
    const MemoryPlans &memory;
    const PersistentLayouts &persistent;
    const std::vector<Arena> &arenas;
    const std::optional<program::ParameterServer> &server;
    const std::string &lanePolicy;
};
/// Makes every rank's tasks with their effects, durations and payloads. @p pooled: calls that are there already.
TaskDraft makeTasks(const TaskInput &in, PooledCalls pooled);

/// True if averages travel in the step behind their snapshots', as what that step itself communicates goes first:
/// nothing that travels is interrupted. Of tables that is the rows which it looks up, behind which averages set out; of
/// replicas that share tensors, or a machine, each collective of its passes, between which buckets travel. Without a
/// delay nothing may come between.
inline bool averagesComeLater(const plan::Plan &plan)
{
    const plan::Exchange &exchange = plan.exchange;
    const auto arrive = [](const plan::SparseTable &table) { return plan::isCut(table.strategy); };
    const bool rows =
        exchange.hasTables() && std::any_of(exchange.sparse.tables.begin(), exchange.sparse.tables.end(), arrive);
    return exchange.averages() && exchange.averaging.delay > 0 && (rows || stepsCommunicate(plan));
}

} // namespace planloom::compile
