// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/memory/measured_times.h"
#include "engine/plan/plan.h"
#include "engine/run/summary.h"
#include "engine/trace/trace.h"
#include "executor/runtime/rank_executor.h"

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace planloom::runtime {

/// True if a memory policy of @p plan decides by what a run measures: its steps from OperatorTimes::kSteps on are
/// another Program's, compiled with those times.
bool decidesByMeasured(const plan::Plan &plan);

/// Collective. What every rank of @p program has measured, the same on all of them to the bit; @p own: of this one.
/// Errors: Failed (communication).
Result<memory::RunTimes> shareTimes(const program::Program &program, const memory::MeasuredTimes &own,
                                    comm::Communicator &communicator, std::chrono::nanoseconds deadline);

/// The bytes that a rank holds between two steps: parameters, states, copies in bfloat16. For an executor of another
/// Program that was compiled from the same plan.
using Holdings = std::vector<std::vector<std::byte>>;
/// Between steps. Errors: those of RankExecutor::bringStates and HostPieces.
Result<Holdings> holdingsOf(RankExecutor &executor);
/// Before the first step. Errors: those of HostPieces; Failed, if they are of another plan.
Status setHoldings(RankExecutor &executor, const Holdings &holdings);

/// What the steps before have left to the executor of the measured course.
struct Measured {
    memory::RunTimes times;
    Holdings holdings;
    std::map<std::string, std::string> notes; ///< TrainingWatch::notes()
};
/// Collective, behind the last step of @p executor, which has measured: all but the notes and the step. Errors: those
/// of RankExecutor::measuredTimes, shareTimes and holdingsOf.
Result<Measured> takeMeasured(RankExecutor &executor, comm::Communicator &communicator);

/// Files of a run that decides by what it measures.
inline constexpr const char *kMeasuredTimes = run::kMeasuredTimesFile;
inline constexpr const char *kMeasuredTrace = run::kMeasuredTraceFile;
/// That of the measured course's tasks, by @p rank alone, before the agent joins them.
std::string measuredTraceOf(const std::string &runDir, int rank);
/// That of @p rank's tasks of @p program, to be filled. Errors: those of TraceWriter::create.
Result<trace::TraceWriter> openMeasuredTrace(const std::string &runDir, int rank, const program::Program &program,
                                             const plan::Document &document);

} // namespace planloom::runtime
