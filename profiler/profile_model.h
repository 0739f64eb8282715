// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "engine/base/result.h"
#include "engine/cost/cost.h"
#include "engine/graph/graph.h"
#include "engine/plan/plan.h"
#include "executor/data/data_set.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace planloom::profiler {

/// What is measured, and for how long.
struct ProfileOptions {
    std::string device = "cpu"; ///< or "cuda:N", where a rank has a GPU to itself
    std::string deviceType;     ///< of the profile, on a GPU; empty: its family, or the driver's name of it
    /// Samples of a slice (a replica's share of a micro-batch) to measure at; costs between two are interpolated. Best
    /// the very sizes that the plan uses: see samplesOf().
    std::vector<std::int64_t> samples{1, 2, 4, 8};
    int repetitions = 0; ///< of each pass; 0: for `seconds`, at least 3 times
    double seconds = 1;  ///< of steps for each size of a slice: a median over a second is steady to about 1 % on a
                         ///< machine that does nothing else
    int ranks =
        1; ///< workers that will share this machine: as many copies are measured at the same time, on disjoint cores
    int threads = 0; ///< OpenMP threads of one rank; 0: its share of the cores
    std::int64_t seed = 1;
    std::string modelFolder;   ///< where weights that come from files lie
    plan::Optimizer optimizer; ///< whose step is measured
};

/// The sizes of the slices that @p plan runs, ascending, each once.
std::vector<std::int64_t> samplesOf(const plan::Plan &plan);
/// Workers that a plan starts: its devices, each once.
int ranksOf(const plan::Plan &plan);
/// Those of them that share a machine, at most: all, where the cluster's nodes have no addresses, as all start on one
/// then.
int ranksOfMachine(const plan::Plan &plan, const cluster::Cluster &cluster);

/// Measures the kernels of @p plan's ranks, on processors all ranks at the same time, on threads, on a GPU those that
/// have GPUs in the plan one after another; where nodes have addresses, those of one machine at a time, each kind of
/// machine once: Profile::kernels, for every
/// operator of every rank, and in Profile::extra optimizer_seconds_per_parameter and busy_slowdown. The sizes are those
/// of the plan's slices; `samples` and `ranks` of
/// @p options do not count. Errors: as of profileModel, and those of compiling the plan.
Result<cost::Profile> profilePlan(const plan::Plan &plan, const plan::Subject &subject, const ProfileOptions &options,
                                  Progress &progress);

/// How many rows of @p plan's tables that are exchanged by rows the steps of an epoch of @p data look up, at most
/// kCountedSteps of them from the first on, in the order of @p seed: Profile::tables. Errors: those of compiling the
/// plan, Unsupported (no data for a table's ids).
Result<std::map<std::string, cost::TableRows>> countTableRows(const plan::Plan &plan, const plan::Subject &subject,
                                                              const data::DataSet &data, std::int64_t seed);
inline constexpr std::int64_t kCountedSteps = 32;

/// Measures @p graph on this machine: the whole model as one rank of the executor holds it, its own kernels, order and
/// memory layout, so that caches are as full as in a run. Gives Profile::kernels, the median forward and backward time
/// of every operator (a pass's sum is the pass's own median) and, in Profile::extra, optimizer_seconds_per_parameter,
/// on processors host_copy_bytes_per_second, and, for more than one rank,
/// allreduce_bytes_per_second (through memory that the ranks share, at the size of the model's gradients). Takes a
/// second or, for large models, a few passes per sample count; needs the memory of the run, per rank. @p progress is
/// asked between passes, on another thread while this one waits. Errors: Unsupported (device; operator without kernel
/// or gradient, named), NotFound (GPU), BadInput (options), Cancelled, Failed (memory, device).
Result<cost::Profile> profileModel(const std::shared_ptr<const graph::Graph> &graph, const ProfileOptions &options,
                                   Progress &progress);

} // namespace planloom::profiler
