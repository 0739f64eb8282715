// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"
#include "executor/runtime/checkpointing.h"
#include "executor/runtime/rank_executor.h"

#include <string>
#include <utility>
#include <vector>

namespace planloom::test {

/// Steps [first, last) of a run, from the checkpoint in `from` unless they are the first, with one kept in `runDir`.
struct PartOfTraining {
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::string from;
    std::string runDir;
    std::int64_t lease = 0;           ///< epoch of the lease on runDir
    device::Device *device = nullptr; ///< nullptr: the processor
};

/// One rank's share of @p part. @p losses: gets one per step, on rank 0.
inline Status runPart(const PartOfTraining &part, const program::Program &program, const graph::Graph &graph,
                      const plan::Plan &plan, const runtime::Feed &feed, comm::Communicator &communicator,
                      std::vector<double> &losses)
{
    trace::Ring ring(1 << 14);
    runtime::ExecutorOptions options;
    options.steps = part.last;
    options.firstStep = part.first;
    options.optimizer = plan.optimizer;
    options.device = part.device;
    if (communicator.rank() == 0)
        options.onStep = [&](const run::StepMetrics &result) { losses.push_back(result.loss); };
    auto executor = runtime::RankExecutor::create(program, graph, communicator, feed, ring, std::move(options));
    if (!executor)
        return executor.error();
    if (part.first > 0)
        if (const Status restored = runtime::restoreHeld(**executor, part.from); !restored)
            return restored;
    auto checkpoints = runtime::Checkpointing::create(**executor,
                                                      {.runDir = part.runDir,
                                                       .every = part.last,
                                                       .lease = part.lease,
                                                       .firstStep = part.first,
                                                       .state = {},
                                                       .globalBatch = plan.globalBatch,
                                                       .order = feed.order,
                                                       .beforePublish = {}});
    if (!checkpoints)
        return checkpoints.error();
    if (const Status run = (*executor)->run(); !run)
        return run;
    return (*checkpoints)->finish(part.last, {});
}

} // namespace planloom::test
