// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace planloom::checkpoint {

/// The right to publish checkpoints of a run. Each gang that starts takes it with the next epoch, and whoever has an older one can do nothing
/// any more: RUN/lease.json says which epoch is the newest, and both taking and publishing happen under a lock on RUN/lease.lock, which
/// the system lets go of when its holder dies. On a network file system flock() must work. Thread contract: const after making; any thread.
class Lease {
public:
    /// Takes the lease for @p gang (a name for people). Waits for a publication that is under way. Errors: Io, Failed (somebody held the lock for
    /// @p patience), BadInput (lease.json is damaged).
    static Result<Lease> acquire(const std::string &runDir, const std::string &gang, std::chrono::milliseconds patience = std::chrono::seconds(20));
    /// The lease that another process of this gang took.
    static Lease of(const std::string &runDir, std::int64_t epoch) { return {runDir, epoch}; }
    /// The epoch of the newest gang; 0 if there was none.
    static Result<std::int64_t> newestEpoch(const std::string &runDir);

    [[nodiscard]] std::int64_t epoch() const { return m_epoch; }
    /// Runs @p publish while nobody can take the lease. Error: Failed if a newer gang has it, else what @p publish says.
    Status whileHeld(const std::function<Status()> &publish) const;

private:
    Lease(std::string runDir, std::int64_t epoch) : m_runDir(std::move(runDir)), m_epoch(epoch) {}
    std::string m_runDir;
    std::int64_t m_epoch = 0;
};

} // namespace planloom::checkpoint
