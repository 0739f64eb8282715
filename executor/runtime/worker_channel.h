// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/trace/trace.h"
#include "executor/runtime/memory_use.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace planloom::runtime {

/// One training step, done by all ranks.
struct StepReport {
    std::int64_t step = 0; ///< from 0
    double loss = 0;
    double seconds = 0;
    double learningRate = 0;
    double gradientNorm = 0; ///< before clipping; 0: not computed
};

/// Mean loss and share of right answers over the held-out samples, after a step.
struct ValidationReport {
    std::int64_t step = 0;
    double loss = 0;
    double accuracy = 0;
    std::int64_t samples = 0;
};

/// How a worker process talks to whoever started it. The agent implements it over gRPC, tests with vectors.
/// Thread contract: called from one thread at a time (hello before the drain thread starts, finished after it has ended, the rest
/// on the drain thread), never on the thread that computes: an implementation needs no locks and may take its time.
class WorkerChannel {
public:
    virtual ~WorkerChannel() = default;

    /// First call: this process is rank @p rank of the run.
    virtual void hello(int rank, std::int64_t pid) = 0;
    /// One training step is done on all ranks. Only rank 0 reports; steps come in order, each once.
    virtual void metrics(const StepReport &report) = 0;
    /// Only rank 0 reports, between the steps' metrics.
    virtual void validation(const ValidationReport &report) { (void)report; }
    /// Asks for the metrics of the steps before @p steps, all reported, to be written where a run that goes on finds them. Only rank 0 asks.
    virtual void keepMetrics(std::int64_t steps) { (void)steps; }
    /// The metrics of the steps before this one are written; nothing: nobody is left to write them. Where nobody was to do so in the first place,
    /// none have to be.
    [[nodiscard]] virtual std::optional<std::int64_t> metricsKept() { return std::numeric_limits<std::int64_t>::max(); }
    /// Records of this rank, in the order in which they ended; @p dropped counts all that were lost so far.
    virtual void records(std::span<const trace::Record> records, std::int64_t dropped) = 0;
    /// Mean loss and share of right answers over the held-out samples, after the last step. Only rank 0 reports, and only where
    /// samples were held out.
    virtual void evaluation(double loss, double accuracy, std::int64_t samples)
    {
        (void)loss, (void)accuracy, (void)samples;
    }
    /// How much is done so far, in tasks; @p training: more is due, and none for long would be bad news. About every 50 ms.
    virtual void progress(std::int64_t done, bool training) { (void)done, (void)training; }
    /// Just before finished(), where the held-out loss got no better.
    virtual void stoppedEarly() {}
    /// Just before finished() with an error: what kind of error it is.
    virtual void failing(ErrorCode code) { (void)code; }
    /// Last call. @p errorText is empty if the run went to its end or was stopped on request.
    virtual void finished(const MemoryUse &memory, const std::string &errorText) = 0;
    /// True once the run should stop after the current step. Asked about every 50 ms; a broken connection should say true.
    [[nodiscard]] virtual bool stopRequested() = 0;
};

} // namespace planloom::runtime
