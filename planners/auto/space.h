// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/auto/score.h"
#include "planners/common/kept_stages.h"

#include <string>
#include <vector>

namespace planloom::planners::automatic {

/// The search space under the options of `--set`.
struct Settings {
    std::vector<std::string> seeds;            ///< planners whose answers begin the search
    std::vector<plan::ScheduleKind> schedules; ///< with a stage on each group of devices
    bool interleave = true;                    ///< several stages on each group of devices, too
    /// Schedules that the dynamic programme and the enumeration take: all but zero-bubble, which steps from their plans
    /// try.
    [[nodiscard]] std::vector<plan::ScheduleKind> cutSchedules() const;
    /// Whether a schedule may be chosen that is no ordinary pipeline's.
    [[nodiscard]] bool anyOrder() const { return interleave || cutSchedules().size() < schedules.size(); }
    std::size_t mostStages = 0; ///< 0: any number
    int mostTensor = 0;         ///< devices that may share a replica's tensors; 0: a machine's
    bool zero = true;           ///< levels above the problem's may be chosen
    bool policies = true;       ///< memory policies may be chosen where memory binds
    std::size_t windows = 16;
    std::size_t simulations = 512;
    std::size_t exact = 20000; ///< a space of at most so many plans is searched whole
    double reserve = 0.05;
    KeptStages keep; ///< of the pipeline; nothing else is searched
};

/// Numbers of micro-batches worth a search, descending: numbers that give some number of replicas a slice of the sizes
/// that planners try.
std::vector<std::int64_t> microBatchCounts(const Problem &problem);

/// Degrees that the model can be laid out in on some machine of the cluster, whole replicas first.
std::vector<Degree> degrees(const Problem &problem, StageCosts &costs, int most);

/// ZeRO levels from the problem's on, up to 3, of a layer profile up to 1; only the problem's if there is one device.
std::vector<int> zeroLevels(const Problem &problem, const Settings &settings);

/// The plan that a sketch stands for.
plan::Plan planOf(const Sketch &sketch, Scorer &scorer, const Options &options);

/// Plans that differ from @p plan as a whole: more or fewer micro-batches, another schedule, several stages on each
/// group of devices, another ZeRO level.
std::vector<plan::Plan> variants(const plan::Plan &plan, const Problem &problem, const Settings &settings);

/// Plans one step away from @p plan: a boundary moved by a layer, a stage that recomputes more or less.
std::vector<plan::Plan> neighbours(const plan::Plan &plan, const Problem &problem, const Settings &settings);

/// True if @p plan is of the space that the search and its bound are of: runs of layers on runs of units of a line, one
/// degree, a number of micro-batches of the search, an order of passes of @p kinds, recomputation by stage
/// (StageCosts::recomputations), and ZeRO by stage, or, where @p oneLevel is true, at one level for all stages with
/// replicas, as the enumeration has it. Plans of other planners, interleaved ones and such with other shares, buckets
/// or slots need not be.
bool inSpace(const plan::Plan &plan, const std::vector<plan::ScheduleKind> &kinds, bool oneLevel,
             const Settings &settings, Scorer &scorer);
/// The same space in words, a choice a line: what inSpace() accepts, with the figures of the problem.
std::vector<std::string> describeSpace(const std::vector<plan::ScheduleKind> &kinds, bool oneLevel,
                                       const Settings &settings, Scorer &scorer);

} // namespace planloom::planners::automatic
