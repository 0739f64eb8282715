// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"
#include "engine/run/settings.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::agent {

/// A machine of a plan that ssh reaches, with the ranks on it.
struct PlanHost {
    std::int32_t node = 0; ///< index of Cluster::nodes()
    std::string name;      ///< the node's
    cluster::Host host;
    int ranks = 0;
};
/// Machines of the plan's devices, in the order of the cluster's nodes; empty: none has an address, or there is one
/// only. Errors: BadInput (some have an address and some have none, an IPv6 address, one address for two of them).
Result<std::vector<PlanHost>> hostsOf(const plan::Document &document);
/// The same of a cluster whose devices are all used.
Result<std::vector<PlanHost>> hostsOf(const cluster::Cluster &cluster);
/// Whether a run of several hosts can do what is asked. Error: Unsupported (checkpoints, and plans whose ranks write
/// files that others read: roles, ADMM, courses by measured times).
Status checkOnHosts(const plan::Plan &plan, const run::Settings &settings);

/// Where the processes of a run over several hosts find what they need, under one path on each: `run`, the run's folder
/// or a copy of what it begins with; `memory`, a folder in memory; and beside it, at socketOf(), the agent's socket, or
/// ssh's end of the way there. @p id: 16 hexadecimal digits.
std::string meetingFolder(std::string_view id);
/// Whether @p path is a meetingFolder().
bool isMeetingFolder(std::string_view path);
std::string socketOf(const std::string &meetingFolder);

/// What the agent is told of a run over several hosts.
struct Meeting {
    std::string folder;              ///< meetingFolder(); empty: all ranks start on this machine
    std::vector<std::int32_t> cores; ///< of each of Cluster::nodes(), as counted there; 0: no rank is there
};

/// A rank's host, and the cores there that it may use.
struct RankPlace {
    cluster::Host host;
    int firstCore = 0;
    int lastCore = 0;
};
/// @p nodes: a node for each rank. Ranks of a host share its cores out evenly, or use all of them where there are fewer
/// cores than ranks. Error: BadInput (a node without a host or cores).
Result<std::vector<RankPlace>> placesOf(std::span<const std::int32_t> nodes, const cluster::Cluster &cluster,
                                        std::span<const std::int32_t> cores);
/// Open MPI's host file and rank file.
std::string hostFile(std::span<const RankPlace> places);
std::string rankFile(std::span<const RankPlace> places);
/// A file for `ssh -F`: users and ports of the hosts, no questions, no silent connections; else the user's own.
std::string sshConfigOf(std::span<const RankPlace> places);

/// This machine's end of a meeting folder, for as long as it exists: links to what is here already, and `ssh_config`.
class MeetingEnd {
public:
    /// Error: Io, e.g. the folder is there.
    static Result<MeetingEnd> make(const std::string &folder, const std::string &runFolder,
                                   const std::string &socketPath, const std::string &memory,
                                   const std::string &sshConfig);
    MeetingEnd(MeetingEnd &&other) noexcept;
    MeetingEnd &operator=(MeetingEnd &&) = delete;
    ~MeetingEnd();

private:
    explicit MeetingEnd(std::string folder) : m_folder(std::move(folder)) {}
    std::string m_folder;
};

/// Removes a meeting folder and its socket.
void removeMeeting(const std::string &folder);

/// This kernel and its table of processes: two processes with the same name for it have different numbers.
std::string machineName();

} // namespace planloom::agent
