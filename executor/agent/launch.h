// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/agent/child.h"

#include <string>
#include <vector>

namespace planloom::agent {

/// Name of the environment variable that carries a run's token to its workers (never in an argument, where others could read it).
inline constexpr const char *kTokenVariable = "PLANLOOM_RUN_TOKEN";

/// The command that starts @p ranks workers on this machine: the worker itself for one rank, else Open MPI's mpirun.
/// Errors: NotFound (no planloom beside the running program, no mpirun).
Result<Command> workerCommand(int ranks, const std::string &runFolder, const std::string &socketPath, const std::string &token);

/// The command that starts @p ranks processes of planloom with @p arguments on this machine by Open MPI's mpirun.
/// Errors: NotFound (no planloom beside the running program, no mpirun).
Result<Command> ranksCommand(int ranks, const std::vector<std::string> &arguments);

} // namespace planloom::agent
