// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/compile.h"
#include "engine/plan/plan.h"
#include "engine/trace/ring.h"
#include "executor/checkpoint/lease.h"
#include "executor/comm/local_group.h"
#include "executor/runtime/checkpointing.h"
#include "executor/runtime/rank_executor.h"

#include <omp.h>

#include <string>
#include <thread>
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
    return (*checkpoints)->finish((*executor)->stepsDone() + part.first, {});
}

/// All ranks of @p plan's share of @p part, one thread each, on the data in @p path.
inline Status trainPart(PartOfTraining part, const plan::Plan &plan, const plan::Subject &subject,
                        const std::string &path, std::vector<double> &losses)
{
    const auto program = compile::compilePlan(plan, subject);
    const auto needs = data::needsOf(*subject.graph);
    const auto data = data::openDataSet(path, *needs);
    const auto lease = checkpoint::Lease::acquire(part.runDir, "test");
    if (!program || !data || !lease)
        return !program ? program.error() : !data ? data.error() : lease.error();
    part.lease = lease->epoch();
    const runtime::Feed feed{data->get(), *needs, data::SampleOrder((*data)->samples(), 1, 0)};
    const std::size_t ranks = program->ranks.size();
    comm::LocalGroup group(static_cast<int>(ranks));
    std::vector<Status> done(ranks);
    {
        std::vector<std::jthread> threads;
        for (std::size_t rank = 0; rank < ranks; ++rank)
            threads.emplace_back([&, rank] {
                omp_set_num_threads(1);
                const auto communicator = group.end(static_cast<int>(rank));
                done[rank] = runPart(part, *program, *subject.graph, plan, feed, *communicator, losses);
                if (!done[rank])
                    communicator->abort(done[rank].error().text());
            });
    }
    for (const Status &status : done)
        if (!status)
            return status;
    return {};
}

} // namespace planloom::test
