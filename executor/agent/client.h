// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::agent {

/// What to train. Everything but the plan has a sensible default.
struct TrainRequest {
    std::string planJson;          ///< a plan file's contents
    std::string dataPath;          ///< text, token file, .npy, CSV(.gz) or IDX on the agent's machine
    std::int64_t steps = 100;
    std::int64_t seed = 1;
    std::string runDir;            ///< absolute; empty: a new folder under the agent's root
    double holdout = 0;            ///< share of the samples that is kept from training and evaluated at the end
    int threads = 0;               ///< of each rank; 0: its share of the cores
    double timeoutSeconds = 0;     ///< no communication may stand still for longer; 0: the worker's default
};

/// One training step, all ranks together.
struct StepMetrics {
    std::int64_t step = 0;
    double loss = 0;
    double seconds = 0;
    double samplesPerSecond = 0;
};

/// The last word on a run; also written to RUN/summary.json.
struct RunSummary {
    std::int64_t steps = 0;
    double lossFirst = 0;
    double lossLast = 0;
    double iterationSecondsMedian = 0;
    double predictedIterationSeconds = 0;
    double predictionError = 0; ///< predicted / measured - 1
    std::vector<std::int64_t> peakBytesPredicted; ///< per rank
    std::vector<std::int64_t> peakBytesMeasured;
    std::int64_t traceDropped = 0;
    std::string tracePath;
    double evaluationLoss = 0;
    double evaluationAccuracy = 0;
    std::int64_t evaluationSamples = 0; ///< 0: nothing was held out
};

/// RUN/summary.json's contents, and the object of `train --json`'s last line.
std::string toJson(const RunSummary &summary);
Result<RunSummary> summaryFromJson(std::string_view text);
/// A line of RUN/metrics.jsonl, and of `train --json`; without the line's end.
std::string toJson(const StepMetrics &metrics);
/// All whole lines of a metrics.jsonl; a last line that was cut short is left out.
Result<std::vector<StepMetrics>> metricsFromJson(std::string_view text);

enum class RunState { Starting, Running, Finished, Stopped, Failed };

/// Called on one thread of the client, in order. A studio posts them to its own thread.
struct RunEvents {
    std::function<void(const std::string &runId, const std::string &runDir)> onStarted;
    /// The task and rank tables of the run's Program; before the first onRecords.
    std::function<void(const std::vector<trace::RankInfo> &, const std::vector<trace::TaskInfo> &)> onTraceTables;
    std::function<void(const std::vector<trace::Record> &, std::int64_t dropped)> onRecords;
    std::function<void(const StepMetrics &)> onStep;
    std::function<void(RunState, const std::string &message)> onState; ///< Failed carries one clear error
    std::function<void(const RunSummary &)> onSummary;                 ///< after Finished or Stopped, if a step was done
};

/// A connection to an agent. Thread-safe.
class Client {
public:
    /// Starts `planloom agent` as a child (its own process group, 0600 socket in a 0700 folder, dies with this process) and connects.
    /// @p planloomBinary empty: the `planloom` beside the running program. Errors: Io, NotFound.
    static Result<std::unique_ptr<Client>> startLocal(const std::string &planloomBinary = {});
    /// Connects to an agent's socket that is already there (perhaps forwarded by ssh).
    static Result<std::unique_ptr<Client>> connect(const std::string &socketPath);
    virtual ~Client() = default;

    /// Runs to the end, calling @p events; blocks. Errors: what the agent refused (bad plan, unreadable data, run folder in use),
    /// or why the run failed; everything is already cleaned up then. Cancelled if stop() ended it.
    virtual Status train(const TrainRequest &request, const RunEvents &events) = 0;
    /// Asks the running train() to stop after the current step; asked again, to stop by force. Returns at once; callable from any thread and signal-safe code paths.
    virtual void stop() = 0;
};

} // namespace planloom::agent
