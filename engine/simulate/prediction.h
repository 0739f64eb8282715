// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/efficiency.h"
#include "engine/plan/plan.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace planloom::simulate {

/// Prediction of a run of a plan: figures to compare it with, and the tables of its trace.
struct Prediction {
    double iterationSeconds = 0;
    std::int32_t periodSteps = 1; ///< steps differ in turn: Program::periodSteps, or versions whose mean says something
    std::vector<std::int64_t> peakBytes; ///< the arena of each rank of the Program; roles and servers have none
    /// What follows behind the plan's own iterations (plan::Continuation).
    struct Later {
        std::int64_t after = 0;
        double iterationSeconds = 0;
        std::vector<std::int64_t> peakBytes; ///< its memory comes in the place of what was before
    };
    std::optional<Later> later;
    trace::Tables tables;
    std::vector<std::int32_t> nodes; ///< per rank: its machine, an index of Cluster::nodes()
    double samplesPerIteration = 1;  ///< Report::samplesPerIteration()
    plan::ModelWork work;
    std::string modelName;
    std::string plan; ///< plan::fingerprint()
};

/// Compiles the plan for every rank and runs it on the cost clock. @p kernels: the tables have rows for what devices
/// run of each task (program::addKernelRows). Errors: those of compilePlan and simulate.
Result<Prediction> predict(const plan::Document &document, bool kernels = false);

} // namespace planloom::simulate
