// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/run/metrics.h"

#include <optional>

namespace planloom::run {

/// Result of a run that finished or was stopped.
struct Summary {
    std::int64_t steps = 0;
    double lossFirst = 0;
    double lossLast = 0;
    double iterationSecondsMedian = 0; ///< medianSeconds()
    double predictedIterationSeconds = 0;
    double samplesPerSecond = 0;        ///< by that median; 0: not known
    double tokensPerSecond = 0;         ///< plan::Efficiency; 0: the model has no sequence
    double mfu = 0;                     ///< likewise; 0: not known
    std::string mfuPrecision;           ///< of the peak that mfu is a share of: "float32", "bfloat16"
    std::string planHash;               ///< plan::fingerprint() of the plan; empty: not known
    double predictionError = 0;         ///< predicted / measured - 1; NaN: not comparable
    std::int64_t ranksOnProcessors = 0; ///< those that the plan places on GPUs, which this machine does not have
    std::int64_t thenFrom = 0; ///< the first step by gradients behind iterations of ADMM; 0: none was made. The figures
                               ///< above are of the iterations then, if any was made
    double thenSecondsMedian = 0;
    double thenSecondsPredicted = 0;
    std::vector<std::int64_t> peakBytesPredicted; ///< of each rank that has an arena: the arena, of the newest workers
    std::vector<std::int64_t> peakBytesMeasured;
    std::vector<std::int64_t> beyondArenaBytes; ///< likewise: the process's own memory at its fullest without the arena
    std::vector<std::int64_t> sharedBytes;      ///< likewise: bytes touched of shared segments
    std::vector<std::int64_t> sentBytes;        ///< likewise: that its collectives have sent in the workers' steps
    std::int64_t traceDropped = 0;              ///< records
    std::string tracePath;
    std::optional<Validation> evaluation; ///< after the last step; none: nothing was held out
    std::int64_t restarts = 0;
    bool stoppedEarly = false; ///< the held-out loss got no better
};

/// Files of a run whose memory policies decide by what it measures: what that was, and the tasks of the steps that
/// followed from it.
inline constexpr const char *kMeasuredTimesFile = "measured.json";
inline constexpr const char *kMeasuredTraceFile = "trace.measured.pltrace";

/// Median of the steps' seconds, without the first one, which also warms up; 0 without steps. Where steps differ in
/// turn (Program::periodSteps), of the means of @p period steps each.
double medianSeconds(const std::vector<StepMetrics> &steps, std::size_t period = 1);

/// The longest of @p period steps that follow each other; median over the whole rounds of that many among the newest
/// steps of @p steps, at most @p most of them. Where a step in each round waits for an average, that is what it takes.
/// Of fewer steps than a round has, the longest. 0 without steps.
double longestSeconds(const std::vector<StepMetrics> &steps, std::size_t period, std::size_t most);

/// RUN/summary.json's contents, and the object of `train --json`'s last line.
std::string toJson(const Summary &summary);
/// Error: BadInput.
Result<Summary> summaryFromJson(std::string_view text);

} // namespace planloom::run
