// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/compile/compile.h"
#include "engine/program/program.h"
#include "engine/simulate/causes.h"
#include "engine/trace/trace.h"

#include <string>
#include <vector>

namespace planloom::simulate {

/// Live bytes of one rank from `seconds` on, by kind of memory (memoryKinds()).
struct MemoryPoint {
    double seconds = 0;
    std::int64_t persistent = 0;
    std::int64_t activations = 0;
    std::int64_t gradients = 0;
    std::int64_t workspace = 0;
    [[nodiscard]] std::int64_t total() const { return persistent + activations + gradients + workspace; }
};

/// Purpose of bytes: a row per member of MemoryPoint.
struct MemoryKind {
    const char *name;
    std::int64_t MemoryPoint::*bytes;
    std::vector<program::Area> areas; ///< of the arena, that are counted there
};
/// In the order in which views stack them, from the bottom up.
const std::vector<MemoryKind> &memoryKinds();

/// A device's memory and work in an iteration.
struct DeviceReport {
    std::string id;             ///< the cluster's name
    std::int64_t peakBytes = 0; ///< arena of the rank
    std::int64_t capacityBytes = 0;
    double busyFraction = 0; ///< compute lane
    double commFraction = 0; ///< any communication lane
};

/// The figures that `simulate --json` prints.
struct Report {
    double iterationSeconds = 0;
    double samplesPerSecond = 0;
    double bubbleFraction = 0; ///< idle share of the compute lanes
    bool fits = false;         ///< every device's peak is within its capacity
    std::vector<DeviceReport> devices;
    double lowerBoundSeconds = 0;
    double speedupOverOneDevice = 0; ///< 0: not known; null in JSON

    /// The global batch; with a parameter server those that a version is made of.
    [[nodiscard]] double samplesPerIteration() const { return samplesPerSecond * iterationSeconds; }
};

/// What a simulation records beside the figures.
struct Options {
    bool trace = true;                       ///< fill Simulation::trace
    bool memory = true;                      ///< fill Simulation::memory
    compile::StageCache *stages = nullptr;   ///< simulatePlan() only: remembers stages from plan to plan
    const memory::RunTimes *times = nullptr; ///< simulatePlan() only: as compile::Options has them
};

/// The prediction of a step.
struct Simulation {
    Report report;
    /// One iteration, step 0, clock "cost". Of a Program that spans steps: one period of them, and what begins of the
    /// next one, up to the end of what the period leaves open, and up to the merges of its averages. Of a Program with
    /// roles: the iterations of its job.
    trace::Trace trace;
    /// What the trace's tasks wait for. Empty without a trace, and where processes beside the ranks take part (roles, a
    /// parameter server).
    Causes causes;
    std::vector<std::vector<MemoryPoint>> memory; ///< per rank, in time order
};

/// With a parameter server (program::ParameterServer) an iteration is a version of the parameters, the report is of
/// versions in the long run (versions.h), and the trace shows one iteration of each rank, without waiting for a
/// version. Runs @p program on the cost clock: event-driven, deterministic, O(tasks log ranks). A dependency cycle
/// (only possible for a hand-made Program) is an error that names the tasks that wait. Unsupported: a trace of a folded
/// Program with roles.
Result<Simulation> simulate(const program::Program &program, const cluster::Cluster &cluster,
                            const Options &options = {});

/// compile + simulate, without bodies. Ranks that do the same are folded unless a trace or memory curves of each are
/// wanted: with neither, plans for tens of thousands of devices take milliseconds, and the report is the same to the
/// last bit.
Result<Simulation> simulatePlan(const plan::Plan &plan, const plan::Subject &subject, const Options &options = {});

/// Seconds of one iteration only, the mean over a period; no cluster needed. For planners' inner loops and worked
/// examples.
Result<double> iterationSeconds(const program::Program &program);

/// The JSON object of the contract, one line.
std::string toJson(const Report &report);
/// Where @p report is faster than its own lower bound, a sentence that says so; else empty.
std::string boundDefect(const Report &report);

} // namespace planloom::simulate
