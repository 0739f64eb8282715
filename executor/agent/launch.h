// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/agent/child.h"
#include "executor/agent/hosts.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace planloom::agent {

/// Processes that one machine can be asked to hold.
inline constexpr std::size_t kMostRanks = 128;

/// Name of the environment variable that carries a run's token to its workers (never in an argument, where others could
/// read it).
inline constexpr const char *kTokenVariable = "PLANLOOM_RUN_TOKEN";

/// A folder in memory shared by a launcher and its ranks. Removed with its content by the destructor:
/// where they are killed they clean up nothing, and each of them has megabytes there. A new one also removes those of
/// agents that were killed.
class Scratch {
public:
    Scratch();
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
    ~Scratch();
    /// Empty: none could be made; the launcher then uses its own defaults.
    [[nodiscard]] const std::string &path() const { return m_path; }

private:
    std::string m_path;
    int m_lock = -1; ///< held as long as the folder is in use
};

/// The command that starts a worker for each of @p nodes, the machines of the plan on which its ranks are: the worker
/// itself for one rank, else Open MPI's mpirun. Where the plan has several machines and Open MPI's host file
/// (OMPI_MCA_orte_default_hostfile) at least as many hosts, machine i's ranks start on the i-th of them, which must
/// reach this machine's files and sockets, as network namespaces do; the run's folder has the list in the file `hosts`.
/// Else mpirun chooses. Errors: NotFound (no planloom beside the running program, no mpirun), Io.
Result<Command> workerCommand(std::span<const std::int32_t> nodes, const std::string &runFolder,
                              const std::string &socketPath, const std::string &token, const Scratch &scratch);

/// The command that starts a process of planloom with @p arguments at each of @p places by mpirun, over ssh. @p
/// runFolder gets `hosts` and `ranks`, what Open MPI is told; every path that another host is told of is beneath @p
/// meetingFolder. Errors: those of workerCommand().
Result<Command> ranksOnHostsCommand(std::span<const RankPlace> places, const std::vector<std::string> &arguments,
                                    const std::string &runFolder, const std::string &meetingFolder);
/// The same for workers.
Result<Command> workersCommand(std::span<const RankPlace> places, const std::string &runFolder,
                               const std::string &meetingFolder, const std::string &token);

/// The command that starts @p ranks processes of planloom with @p arguments on this machine by Open MPI's mpirun.
/// Errors: NotFound (no planloom beside the running program, no mpirun).
Result<Command> ranksCommand(int ranks, const std::vector<std::string> &arguments, const Scratch &scratch);

} // namespace planloom::agent
