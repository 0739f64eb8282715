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
    std::int64_t checkpointEvery = 0; ///< steps; 0: no checkpoints
    int keep = 3;                     ///< newest checkpoints that stay; 0: all
    bool resume = false;              ///< go on with the run in runDir, from its newest whole checkpoint; @see RunFolder::reopen
    int restarts = 0;                 ///< how often a run whose ranks died or hang is started again from its newest checkpoint
    std::int64_t validateEvery = 0;   ///< steps between evaluations of what is held out; 0: only at the end
    int earlyStop = 0;                ///< end after so many validations without a better loss; 0: never
    std::int64_t traceEvery = 1;      ///< one step in so many is traced; 0: none
    double hungSeconds = 0;           ///< without a sign of life or progress a rank counts as hung; at least five steps; 0: 30
};

/// One training step, all ranks together.
struct StepMetrics {
    std::int64_t step = 0;
    double loss = 0;
    double seconds = 0;
    double samplesPerSecond = 0;
    double learningRate = 0;
    double gradientNorm = 0; ///< before clipping; 0: not computed
};

/// The held-out samples after step @p step.
struct Validation {
    std::int64_t step = 0;
    double loss = 0;
    double accuracy = 0;
    double perplexity = 0; ///< e^loss
    std::int64_t samples = 0;
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
    std::vector<std::int64_t> beyondArenaBytes; ///< per rank: the process's own memory at its fullest, without the arena
    std::vector<std::int64_t> sharedBytes;      ///< per rank: what it touched of the segments that ranks share
    std::int64_t traceDropped = 0;
    std::string tracePath;
    double evaluationLoss = 0;
    double evaluationAccuracy = 0;
    std::int64_t evaluationSamples = 0; ///< 0: nothing was held out
    std::int64_t restarts = 0;
    bool stoppedEarly = false; ///< the held-out loss got no better
};

/// RUN/summary.json's contents, and the object of `train --json`'s last line.
std::string toJson(const RunSummary &summary);
Result<RunSummary> summaryFromJson(std::string_view text);
/// A line of RUN/metrics.jsonl, and of `train --json`; without the line's end.
std::string toJson(const StepMetrics &metrics);
std::string toJson(const Validation &validation); ///< {"validation": {...}}, a line between the steps' of both
/// The steps of all whole lines of a metrics.jsonl; a last line that was cut short is left out.
Result<std::vector<StepMetrics>> metricsFromJson(std::string_view text);
Result<std::vector<Validation>> validationsFromJson(std::string_view text);
/// What a run was asked for, from its RUN/request.json at @p path; without plan and folder. Errors: NotFound, BadInput.
Result<TrainRequest> requestFromJson(const std::string &path);

/// After Restarting come Running and the steps since the newest checkpoint, once more.
enum class RunState { Starting, Running, Finished, Stopped, Failed, Restarting };

/// Called on one thread of the client, in order. A studio posts them to its own thread.
struct RunEvents {
    std::function<void(const std::string &runId, const std::string &runDir)> onStarted;
    /// The task and rank tables of the run's Program; before the first onRecords.
    std::function<void(const std::vector<trace::RankInfo> &, const std::vector<trace::TaskInfo> &)> onTraceTables;
    std::function<void(const std::vector<trace::Record> &, std::int64_t dropped)> onRecords;
    std::function<void(const StepMetrics &)> onStep;
    std::function<void(const Validation &)> onValidation;
    std::function<void(RunState, const std::string &message)> onState; ///< Failed carries one clear error, Restarting why
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
    /// Asks the running train(), or else the next one, to stop after the current step; asked again, to stop by force. Returns at once; callable from
    /// any thread and signal-safe code paths.
    virtual void stop() = 0;
};

} // namespace planloom::agent
