// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace planloom::checkpoint {

/// The right to publish checkpoints of a run. Each worker group that starts takes it with the next epoch, which revokes
/// all older leases: RUN/lease.json holds the newest epoch, and both taking and publishing happen under a lock on
/// RUN/lease.lock, which the system lets go of when its holder dies. On a network file system flock() must work. Thread
/// contract: const after making; any thread.
class Lease {
public:
    /// Takes the lease for worker group @p group (a display name). Waits for a publication that is under way. Errors:
    /// Io, Failed (the lock was held by another process for
    /// @p patience), BadInput (lease.json is damaged).
    static Result<Lease> acquire(const std::string &runDir, const std::string &group,
                                 std::chrono::milliseconds patience = std::chrono::seconds(20));
    /// The lease that another process of this worker group took.
    static Lease of(const std::string &runDir, std::int64_t epoch) { return {runDir, epoch}; }
    /// The epoch of the newest worker group; 0 if there was none.
    static Result<std::int64_t> newestEpoch(const std::string &runDir);

    [[nodiscard]] std::int64_t epoch() const { return m_epoch; }
    /// Runs @p publish while no other group can take the lease. Error: Failed if a newer worker group has it, else that
    /// of @p publish.
    Status whileHeld(const std::function<Status()> &publish) const;

private:
    Lease(std::string runDir, std::int64_t epoch) : m_runDir(std::move(runDir)), m_epoch(epoch) {}
    std::string m_runDir;
    std::int64_t m_epoch = 0;
};

} // namespace planloom::checkpoint
