// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/job.h"
#include "engine/gnn/transfer_rates.h"
#include "executor/comm/communicator.h"
#include "executor/comm/shared_memory.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace planloom::runtime {

/// The network cards of a job's machines, where all its processes are on one: a message between two machines may have
/// sent as many bytes as the transfer policy's rates gave it (gnn::TransferRates), asked by each process over what is
/// active on all cards by a table that the processes share. 8 bytes a connection. Thread contract: one thread of each
/// process.
class PacedNetwork {
public:
    /// Collective over all processes of the job. Errors: Failed (processes on several machines, communication).
    static Result<std::unique_ptr<PacedNetwork>> open(comm::Communicator &comm, const gnn::Job &job,
                                                      const gnn::Network &network, const gnn::Placement &machineOf,
                                                      gnn::TransferPolicy policy, std::chrono::nanoseconds deadline);

    /// Messages within a machine are not paced.
    [[nodiscard]] bool paces(std::int32_t connection) const { return !m_rates.isLocal(connection); }
    /// A message of this process begins on @p connection, which it has to itself; times in nanoseconds.
    void begin(std::int32_t connection, std::int64_t iteration, std::int64_t now);
    void end(std::int32_t connection);
    /// Bytes of the message that may have been sent by @p now. Cost: O(connections).
    double mayHaveSent(std::int32_t connection, std::int64_t now);

private:
    PacedNetwork(const gnn::Job &job, const gnn::Network &network, const gnn::Placement &machineOf,
                 gnn::TransferPolicy policy);
    void update(std::int64_t now);

    std::vector<gnn::Port> m_ports;
    gnn::TransferRates m_rates;
    comm::MemoryFile m_file; ///< of rank 0
    comm::SharedMemory m_memory;
    std::atomic<std::int64_t> *m_active = nullptr; ///< per connection: 0 none, else its message's iteration + kShift
    std::vector<std::int64_t> m_seen;              ///< of m_active, as m_rates knows it
    std::vector<double> m_sent;                    ///< per connection of this process: bytes by m_updated
    std::vector<std::int32_t> m_own;               ///< connections with a message of this process
    std::int64_t m_updated = 0;
};

} // namespace planloom::runtime
