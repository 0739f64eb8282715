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

Result<Command> ranksCommand(int ranks, const std::vector<std::string> &arguments)
{
    const auto binary = planloomBinary();
    if (!binary)
        return binary.error();
    const auto mpirun = findProgram("mpirun");
    if (!mpirun)
        return mpirun.error();
    Command command;
    command.dieWithThread = true;
    command.environment = allowedEnvironment();
    command.program = *mpirun;
    command.arguments = {"-np", std::to_string(ranks), "--oversubscribe", "--bind-to", "none"};
    if (ranks > cores())
        command.arguments.insert(command.arguments.end(), {"--mca", "mpi_yield_when_idle", "1"});
    command.arguments.push_back(*binary);
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    if (::geteuid() == 0) {
        command.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT=1");
        command.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
    }
    return command;
}

Result<Command> workerCommand(int ranks, const std::string &runFolder, const std::string &socketPath, const std::string &token)
{
    const std::vector<std::string> worker{"worker", "--run-dir", runFolder, "--agent", socketPath};
    const std::string secret = std::string(kTokenVariable) + "=" + token;
    if (ranks > 1) {
        auto command = ranksCommand(ranks, worker);
        if (!command)
            return command;
        command->environment.insert(command->environment.begin(), secret); // the first of equals counts
        command->arguments.insert(command->arguments.begin(), {"-x", kTokenVariable});
        return command;
    }
    const auto binary = planloomBinary();
    if (!binary)
        return binary.error();
    Command command;
    command.dieWithThread = true;
    command.environment = allowedEnvironment();
    command.environment.insert(command.environment.begin(), secret);
    command.program = *binary;
    command.arguments = worker;
    return command;
}

} // namespace planloom::agent
