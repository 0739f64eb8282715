// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/agent/hosts.h"
#include "executor/remote/load.h"
#include "executor/remote/ssh.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace planloom::remote {

/// The other hosts of a run over several, as the process that keeps the run holds on to them: data, plan and model are
/// there, and a guard (guard.h) at the end of an ssh session, which also leads to the agent's socket here. When this
/// object goes, nothing of the run is left there.
///
/// A measurement holds on to its hosts likewise.
///
/// Thread contract: tend() and lost() from one thread, the others from the one that made it, which must outlive it.
class JoinedHosts {
public:
    JoinedHosts() = default;
    JoinedHosts(const JoinedHosts &) = delete;
    JoinedHosts &operator=(const JoinedHosts &) = delete;
    ~JoinedHosts();

    /// Joins those of @p document's hosts that are not this machine, and gives @p request its meeting; does nothing for
    /// a plan without several hosts. @p socket: the agent's. Errors: those of agent::hostsOf(), sendLoad() and of the
    /// guards, naming the host; Cancelled.
    Status join(agent::TrainRequest &request, const std::string &id, const std::string &socket, const Note &note,
                const std::atomic<bool> &stop);
    /// Joins those of @p hosts, of a cluster of @p nodes nodes, that are not this machine, without a run: for ranks
    /// that need no more than planloom. Returns the cores of each node, 0 of those without ranks. Errors: those of
    /// join().
    Result<std::vector<std::int32_t>> joinAll(const std::vector<agent::PlanHost> &hosts, std::size_t nodes,
                                              const std::string &id, const std::atomic<bool> &stop);
    /// Tells the guards that this process is there. To be called several times a second.
    void tend();
    /// The first host whose session ended.
    [[nodiscard]] std::optional<Error> lost() const;
    /// Brings what ranks wrote there into @p folder, once they have ended; tend() no more. Errors: Failed, naming the
    /// first host of which not all came, while that of the others is there; Cancelled.
    Status fetch(const std::string &folder, const std::atomic<bool> &stop);

private:
    struct Host {
        Target target;
        std::size_t node = 0; ///< of the cluster
        std::optional<Session> session;
        bool joined = false; ///< its guard is there
    };
    using Prepare = std::function<Status(const Target &target, const std::string &address)>;
    Result<std::vector<std::int32_t>> joinEach(const std::vector<agent::PlanHost> &hosts, std::size_t nodes,
                                               const std::string &request, const std::string &socket,
                                               const std::atomic<bool> &stop, const Prepare &prepare);
    Status fetchFrom(Host &host, const std::string &folder, const std::atomic<bool> &stop);
    Result<int> joinOne(Host &host, const std::string &request, const std::string &socket,
                        const std::atomic<bool> &stop);

    std::string m_id;
    std::vector<Host> m_hosts;
    std::chrono::steady_clock::time_point m_said;
    mutable std::mutex m_mutex;
    std::optional<Error> m_lost;
};

} // namespace planloom::remote
