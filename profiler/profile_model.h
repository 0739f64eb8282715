// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "engine/base/result.h"
#include "engine/cost/cost.h"
#include "engine/graph/graph.h"
#include "engine/plan/plan.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace planloom::profiler {

struct ProfileOptions {
    std::string device = "cpu";
    /// Samples of a slice (a replica's share of a micro-batch) to measure at; costs between two are interpolated. Best the very
    /// sizes that the plan uses: see samplesOf().
    std::vector<std::int64_t> samples{1, 2, 4, 8};
    int repetitions = 0; ///< of each pass; 0: as many as a steady median needs (3 to 30)
    int threads = 0;     ///< OpenMP threads of one rank; 0: this machine's cores / ranks
    int ranks = 1;       ///< workers that will share this machine: as many copies are measured at the same time, on disjoint cores
    std::int64_t seed = 1;
};

/// The sizes of the slices that @p plan runs, ascending, each once.
std::vector<std::int64_t> samplesOf(const plan::Plan &plan);
/// Workers that a plan starts: its devices, each once.
int ranksOf(const plan::Plan &plan);

/// Measures @p graph layer by layer with the executor's own kernels in their order within the layer: forward and backward time of
/// every operator, and, in Profile::extra, optimizer_seconds_per_parameter, allreduce_bytes_per_second and
/// task_overhead_seconds. Takes about half a second per layer, sample count and 100 ms of its time; stops on request.
/// Errors: Unsupported (device; operator without kernel or gradient, named), BadInput (options), Cancelled, Failed (memory).
Result<cost::Profile> profileModel(const std::shared_ptr<const graph::Graph> &graph, const ProfileOptions &options, Progress &progress);

} // namespace planloom::profiler
