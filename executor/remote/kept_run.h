// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace planloom::remote {

/// Keeps the run of keptFolder(@p id) whether or not a client is connected: starts an agent, trains by plan.json and
/// request.json there, in the folder `run`, and writes what the client is told to events.jsonl, a line each; the last
/// is `{"outcome": {ok, code, message, file, line}}`. SIGTERM, SIGINT or SIGHUP stop the run after its step, a second
/// one by force. The process that dies takes its agent, and that the workers, with it. Returns the process's exit
/// status. Call it from main(), before anything has started a thread.
int keepRun(const std::string &id);

} // namespace planloom::remote
