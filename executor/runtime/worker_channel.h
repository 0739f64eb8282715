// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/run/metrics.h"
#include "engine/trace/trace.h"
#include "executor/runtime/memory_use.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace planloom::runtime {

/// Connection of a worker process to the process that started it. The agent implements it over gRPC, tests with
/// vectors. Thread contract: called from one thread at a time (hello before the drain thread starts, finished after it
/// has ended, the rest on the drain thread), never on the thread that computes: an implementation needs no locks and
/// may take its time.
class WorkerChannel {
public:
    virtual ~WorkerChannel() = default;

    /// First call: this process is rank @p rank of the run.
    virtual void hello(int rank, std::int64_t pid) = 0;
    /// One training step is done on all ranks. Only rank 0 reports; steps come in order, each once.
    virtual void metrics(const run::StepMetrics &report) = 0;
    /// Only rank 0 reports, between the steps' metrics.
    virtual void validation(const run::Validation &report) { (void)report; }
    /// Asks for the metrics of the steps before @p steps, all reported, to be written where a run that goes on finds
    /// them. Only rank 0 asks.
    virtual void keepMetrics(std::int64_t steps) { (void)steps; }
    /// Number of leading steps whose metrics are durable; nullopt after a disconnect. Channels without storage return
    /// INT64_MAX.
    [[nodiscard]] virtual std::optional<std::int64_t> metricsKept() { return std::numeric_limits<std::int64_t>::max(); }
    /// Records of this rank, in the order in which they ended; @p dropped counts all that were lost so far.
    virtual void records(std::span<const trace::Record> records, std::int64_t dropped) = 0;
    /// After the last step. Only rank 0 reports, and only where samples were held out.
    virtual void evaluation(const run::Validation &report) { (void)report; }
    /// How much is done so far, in tasks; @p training: more is due, and none for long would be bad news. About every 50
    /// ms.
    virtual void progress(std::int64_t done, bool training) { (void)done, (void)training; }
    /// Just before finished(), where the held-out loss got no better.
    virtual void stoppedEarly() {}
    /// Just before finished(): bytes that the rank's collectives have sent in all steps
    /// (RankExecutor::collectiveBytes).
    virtual void sent(std::int64_t bytes) { (void)bytes; }
    /// Just before finished() with an error: its code.
    virtual void failing(ErrorCode code) { (void)code; }
    /// Last call. @p errorText is empty if the run went to its end or was stopped on request.
    virtual void finished(const MemoryUse &memory, const std::string &errorText) = 0;
    /// A window of so many seconds in which every kernel of a GPU is to be recorded, from now on; asked about every 50
    /// ms, each window is told once. 0: none.
    [[nodiscard]] virtual double takeKernelsAsked() { return 0; }
    /// True once the run should stop after the current step. Asked about every 50 ms; a broken connection should return
    /// true.
    [[nodiscard]] virtual bool stopRequested() = 0;
};

} // namespace planloom::runtime
