// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/run/settings.h"
#include "engine/run/summary.h"
#include "engine/trace/trace.h"
#include "executor/agent/hosts.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace planloom::agent {

/// A training request.
struct TrainRequest {
    std::string planJson; ///< a plan file's contents
    std::string runDir;   ///< absolute; empty: a new folder under the agent's root
    bool resume = false;  ///< go on with the run in runDir, from its newest whole checkpoint; @see RunFolder::reopen
    run::Settings settings;
    Meeting meeting = {}; ///< of a run over several hosts
};

/// After Restarting come Running and the steps since the newest checkpoint, once more.
enum class RunState { Starting, Running, Finished, Stopped, Failed, Restarting };

/// Called on one thread of the client, in order. A studio posts them to its own thread.
struct RunEvents {
    std::function<void(const std::string &runId, const std::string &runDir)> onStarted;
    /// The tables of the run's Program; before the first onRecords.
    std::function<void(const trace::Tables &)> onTraceTables;
    std::function<void(const std::vector<trace::Record> &, std::int64_t dropped)> onRecords;
    std::function<void(const run::StepMetrics &)> onStep;
    std::function<void(const run::Validation &)> onValidation;
    /// Failed carries one clear error, Restarting why.
    std::function<void(RunState, const std::string &message)> onState;
    std::function<void(const run::Summary &)> onSummary; ///< after Finished or Stopped, if a step was done
};

/// A connection to an agent. Thread-safe.
class Client {
public:
    /// Starts `planloom agent` as a child (its own process group, 0600 socket in a 0700 folder, dies with this process)
    /// and connects.
    /// @p planloomBinary empty: the `planloom` beside the running program. Errors: Io, NotFound.
    static Result<std::unique_ptr<Client>> startLocal(const std::string &planloomBinary = {});
    /// Connects to an agent's socket that is already there (perhaps forwarded by ssh).
    static Result<std::unique_ptr<Client>> connect(const std::string &socketPath);
    virtual ~Client() = default;

    /// Runs to the end, calling @p events; blocks. Errors: a refusal by the agent (bad plan, unreadable data, run
    /// folder in use), or why the run failed; everything is already cleaned up then. Cancelled if stop() ended it.
    virtual Status train(const TrainRequest &request, const RunEvents &events) = 0;
    /// Asks the running train(), or else the next one, to stop after the current step; asked again, to stop by force.
    /// Returns at once; callable from any thread and signal-safe code paths.
    virtual void stop() = 0;
    /// The running train() has every kernel of its GPUs recorded for so many seconds from now on. Waits for the agent's
    /// answer, from another thread than train()'s. Errors: Failed (nothing trains at the moment), BadInput, Unsupported
    /// (a run without records of GPUs), Io.
    virtual Status lookCloser(double seconds) = 0;
    /// The agent's socket on this machine; empty: there is none.
    [[nodiscard]] virtual std::string socket() const { return {}; }
};

} // namespace planloom::agent
