// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/launch.h"

#include <sched.h>
#include <unistd.h>

namespace planloom::agent {
namespace {

int cores()
{
    cpu_set_t set;
    CPU_ZERO(&set);
    return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

} // namespace

Result<Command> workerCommand(int ranks, const std::string &runFolder, const std::string &socketPath, const std::string &token)
{
    const auto binary = planloomBinary();
    if (!binary)
        return binary.error();
    Command command;
    command.dieWithThread = true;
    command.environment = allowedEnvironment();
    command.environment.insert(command.environment.begin(), std::string(kTokenVariable) + "=" + token); // the first of equals counts
    const std::vector<std::string> worker{"worker", "--run-dir", runFolder, "--agent", socketPath};
    if (ranks == 1) {
        command.program = *binary;
        command.arguments = worker;
        return command;
    }
    const auto mpirun = findProgram("mpirun");
    if (!mpirun)
        return mpirun.error();
    command.program = *mpirun;
    command.arguments = {"-np", std::to_string(ranks), "--oversubscribe", "--bind-to", "none", "-x", kTokenVariable};
    if (ranks > cores())
        command.arguments.insert(command.arguments.end(), {"--mca", "mpi_yield_when_idle", "1"});
    command.arguments.push_back(*binary);
    command.arguments.insert(command.arguments.end(), worker.begin(), worker.end());
    if (::geteuid() == 0) {
        command.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT=1");
        command.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
    }
    return command;
}

} // namespace planloom::agent
