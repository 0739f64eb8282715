// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/initializer.h"
#include "executor/runtime/scorer.h"
#include "executor/runtime/stage_runner.h"
#include "executor/runtime/updater.h"

#include <memory>
#include <string>

namespace planloom::runtime {

/// How a stage replica begins and learns.
struct StageSetup {
    const graph::Graph &subject;
    const Feed &feed; ///< borrowed
    std::int64_t seed = 1;
    const std::string &modelFolder;
    const plan::Optimizer &optimizer;
    const UpdateNorms &norms; ///< of the rank; borrowed
};

/// One stage replica on a device, with its first values: runs its passes, updates its parameters and scores it.
struct StageReplica {
    std::unique_ptr<StageRunner> runner;
    Updater updater;
    Scorer scorer;

    /// @p program, @p body, the feed, the norms and what @p context names must outlive it. Errors: those of
    /// StageRunner::create, initializeBody, Updater::create and Scorer::create.
    static Result<StageReplica> create(const program::Program &program, const program::Body &body,
                                       const ComputeContext &context, const StageSetup &setup);
};

} // namespace planloom::runtime
