// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/worker.h"

#include <string>

namespace planloom::agent {

/// Where an agent listens and keeps runs.
struct AgentOptions {
    std::string
        socketPath; ///< empty: agent.sock in a new private folder under $XDG_RUNTIME_DIR or /tmp, printed on stdout
    std::string
        root; ///< where runs without a folder go; empty: $XDG_DATA_HOME/planloom/runs or ~/.local/share/planloom/runs
    bool exitWithParent =
        false; ///< end when standard input ends, as then the parent is gone. Removes the socket's folder, too
};

/// `planloom agent`: serves until SIGINT, SIGTERM or its parent's end, then stops its runs and leaves no process and no
/// socket behind. Returns the process's exit status; errors go to stderr. Call it from main(), before anything has
/// started a thread.
int runAgent(const AgentOptions &options);

/// `planloom worker`: one training process of a run, started by an agent only. Returns the process's exit status.
int runWorkerProcess(const std::string &runFolder, const std::string &socketPath, runtime::FirstValues firstValues);

} // namespace planloom::agent
