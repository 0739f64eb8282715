// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/planloom/output.h"
#include "engine/plan/plan.h"
#include "engine/program/program.h"
#include "engine/run/metrics.h"
#include "engine/trace/trace.h"

#include <optional>
#include <string>
#include <vector>

namespace planloom::cli {

/// The part of a run whose memory policies decided by what the run had measured (plan::MemoryClock::Measured).
struct MeasuredRun {
    std::int64_t fromStep = 0;
    program::Program program; ///< compiled again with what was measured, with bodies
    trace::Trace trace;       ///< of those steps; empty where none was traced
};
/// Of the run in @p folder; nothing, if it has none. @p withTrace: with the whole trace of its steps, in memory.
/// Errors: BadInput, Io (its files are damaged or are of another plan).
Result<std::optional<MeasuredRun>> readMeasuredRun(const plan::Document &document, const std::string &folder,
                                                   bool withTrace);

/// What the steps of @p measured took, beside their prediction by what was measured. Errors: those of simulate.
Status printMeasuredSeconds(const MeasuredRun &measured, const plan::Document &document,
                            const std::vector<run::StepMetrics> &steps, Output &output);

} // namespace planloom::cli
