// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::profiler {

/// One task of one rank, predicted and measured. Only work is compared: a member of a transfer or collective works from
/// the start of its last member (trace::Waits); before that it waits.
struct TaskComparison {
    std::int32_t rank = 0;
    std::string id;                        ///< "s1.F.m3"
    trace::Kind kind = trace::Kind::Other; ///< row of Comparison::kindTable
    double predicted = 0;                  ///< seconds of work of a run; median over the rounds of the predicted trace
    double measured = 0;                   ///< the same of the measured trace
    std::int64_t runs = 0;                 ///< how often it was measured
    double predictedWaiting = 0;           ///< seconds before the work; medians likewise
    double measuredWaiting = 0;
    double predictedShare = 1; ///< runs per step: less than 1 for a task that runs once in a round of several steps
    double measuredShare = 1;
    [[nodiscard]] double ratio() const { return measured > 0 ? predicted / measured : 0; }
};

/// All tasks of one kind on one rank, per step.
struct KindComparison {
    std::int32_t rank = 0;
    trace::Kind kind = trace::Kind::Other; ///< row of Comparison::kindTable
    std::int64_t tasks = 0;
    double predicted = 0; ///< seconds of work a step, summed over the tasks
    double measured = 0;
    double predictedWaiting = 0; ///< seconds of waiting a step, summed over the tasks
    double measuredWaiting = 0;
    [[nodiscard]] double ratio() const { return measured > 0 ? predicted / measured : 0; }
};

/// A prediction laid over a run.
struct Comparison {
    /// Of a step; median over the rounds (trace::steadyRounds).
    double predictedIterationSeconds = 0;
    double measuredIterationSeconds = 0;
    std::vector<trace::KindInfo> kindTable; ///< the measured trace's
    std::vector<TaskComparison> tasks;      ///< by rank, then in the order of the measured trace's task table
    std::vector<KindComparison> kinds;      ///< by rank, then kind
    std::vector<std::string> onlyPredicted; ///< "rank 1: s1.F.m3": tasks without a partner, none if all is well
    std::vector<std::string> onlyMeasured;
    std::int64_t dropped = 0; ///< records that the measured trace lost
    /// predicted / measured - 1: 0.1 is ten percent too long.
    [[nodiscard]] double error() const
    {
        return measuredIterationSeconds > 0 ? predictedIterationSeconds / measuredIterationSeconds - 1 : 0;
    }
};

/// Joins two traces by (rank, task id), over the steady rounds of each (trace::steadyRounds): the first one warms up
/// and is left out where there are more. The caller decides which is which, not the clock: two predictions can be
/// compared, too. Cost: O(records log records).
Comparison compare(const trace::Trace &predicted, const trace::Trace &measured);

/// What the two traces are called in columns.
struct ComparedNames {
    std::string predicted = "predicted";
    std::string measured = "measured";
};

/// The iterations, then a line per rank and kind, then the @p worst tasks by absolute difference: aligned columns for
/// people.
std::string toText(const Comparison &comparison, const ComparedNames &names = {}, std::size_t worst = 10);
/// The same with every task, one JSON object.
std::string toJson(const Comparison &comparison);

} // namespace planloom::profiler
