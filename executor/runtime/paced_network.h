// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/job.h"
#include "engine/gnn/transfer_rates.h"
#include "executor/comm/communicator.h"
#include "executor/comm/shared_table.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace planloom::runtime {

/// The network cards of a job's machines, where all its processes are on one: messages between two machines are carried
/// at the transfer policy's rates (gnn::TransferRates), as in gnn::Scheduler. Processes enter messages into a table
/// that they share; one that looks moves all cards on to the present, from end to end of a message, so that a card
/// loses no time when a process looks late. 152 bytes a connection. Thread contract: one thread of each process.
class PacedNetwork {
public:
    /// Collective over all processes of the job. Errors: Failed (processes on several machines, communication).
    static Result<std::unique_ptr<PacedNetwork>> open(comm::Communicator &comm, const gnn::Job &job,
                                                      const gnn::Network &network, const gnn::Placement &machineOf,
                                                      gnn::TransferPolicy policy, std::chrono::nanoseconds deadline);

    /// Messages within a machine are not paced.
    [[nodiscard]] bool paces(std::int32_t connection) const { return !m_rates.isLocal(connection); }
    /// A message follows those that were entered before on @p connection, on which this process alone sends; it begins
    /// as soon as they have been carried. Returns the bytes of all of them; nothing if too many wait: ask again.
    /// Times in nanoseconds. Cost: O(connections).
    std::optional<double> enter(std::int32_t connection, std::int64_t iteration, std::int64_t bytes, std::int64_t now);
    /// Bytes of all messages of the connection that have been carried by @p now. Cost: O(connections).
    double carried(std::int32_t connection, std::int64_t now);

private:
    struct Table;
    struct Line;

    PacedNetwork(const gnn::Job &job, const gnn::Network &network, const gnn::Placement &machineOf,
                 gnn::TransferPolicy policy);
    void advance(std::int64_t now);
    void activate();

    std::vector<gnn::Port> m_ports;
    gnn::TransferRates m_rates;
    comm::SharedTable m_memory;
    Table *m_table = nullptr;
    Line *m_lines = nullptr;            ///< per connection
    std::vector<std::int32_t> m_paced;  ///< connections
    std::vector<std::int64_t> m_active; ///< per connection: the iteration that m_rates knows, or kNone
    std::vector<double> m_ends;         ///< per connection: when its message ends at the present rates
};

} // namespace planloom::runtime
