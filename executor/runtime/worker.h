// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"
#include "executor/runtime/worker_channel.h"

#include <functional>
#include <memory>
#include <string>

namespace planloom::runtime {

/// A plan's graph with the first values that a plan file leaves out, by the model's source (plan::Plan::modelSource):
/// import::withFirstValues, handed down from above, as nothing here reads models.
using FirstValues = std::function<Result<std::shared_ptr<const graph::Graph>>(std::shared_ptr<const graph::Graph> graph,
                                                                              const std::string &source)>;

/// One training process. It finds in runDir: plan.json (a plan file) and request.json:
///     {"data": PATH, "steps": N, "seed": S}            and, all optional,
///     "holdout" (fraction of the samples kept for evaluation), "timeout_seconds" (60: no communication may stand still
///     for longer), "threads" (OpenMP threads of this rank; default: its share of the cores)
struct WorkerOptions {
    std::string runDir;
    WorkerChannel *channel = nullptr; ///< must outlive the call
    FirstValues firstValues = {};     ///< empty: the plan's graph has them all
};

/// Runs this process's rank of the run to its end and returns the process's exit status: 0 done or stopped on request,
/// 1 failed while running, 2 the input is wrong (the reason went to the channel's finished()). A Program of one rank
/// needs no launcher; any other must be started by mpirun or srun with exactly one process per rank, without binding
/// (`--bind-to none`): a worker pins itself to its share of the cores. The process dies with its parent. Call it from
/// the main thread, before any OpenMP use.
int runWorker(const WorkerOptions &options);

} // namespace planloom::runtime
