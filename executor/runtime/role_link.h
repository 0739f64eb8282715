// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/network.h"
#include "engine/program/program.h"
#include "engine/trace/trace.h"
#include "executor/runtime/paced_network.h"
#include "executor/runtime/rest.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

namespace planloom::runtime {

/// A message under way; released by the test() that returns true. Plain value.
struct Ticket {
    std::int32_t slot = -1;
    [[nodiscard]] bool pending() const { return slot >= 0; }
};

/// One process's messages to and from the other roles of a job, and its records. A message over a connection of the
/// job's network is cut into chunks; which connection's next chunk leaves is the job's transfer policy: the oldest
/// iteration first, or each connection in turn. On a paced network a chunk leaves when the policy's rates have carried
/// it; on another one, with fixed shares of cards, when the connection's share has left room for it. A connection's
/// messages leave in order. Thread contract: one thread.
class RoleLink {
public:
    /// @p program must have roles; it, the communicator and @p sink are borrowed and outlive the link. @p spins: as of
    /// Rest, while nothing comes.
    RoleLink(const program::Program &program, comm::Communicator &comm, std::int64_t chunkBytes, trace::Sink &sink,
             std::int64_t spins);
    /// Collective over all processes of the job: from here on messages between machines are paced. Errors: those of
    /// PacedNetwork::open.
    Status pace(std::chrono::nanoseconds deadline);
    /// Time zero of records, on this machine's monotonic clock.
    void setOrigin(std::int64_t nanoseconds) { m_origin = nanoseconds; }

    /// @p row: of the trace's tasks (program::RoleRows); -1: it is not recorded. @p data stay untouched until it is
    /// done; a message without bytes is none. Errors: those of Communicator.
    Result<Ticket> send(const void *data, std::int64_t bytes, int peer, int tag, std::int64_t step, std::int32_t row);
    /// Some bytes that wait behind no other message, and are no message of the job.
    Result<Ticket> sendAhead(const void *data, std::int64_t bytes, int peer, int tag);
    Result<Ticket> receiveAhead(void *data, std::int64_t bytes, int peer, int tag);
    /// As many bytes as the sender sends.
    Result<Ticket> receive(void *data, std::int64_t bytes, int peer, int tag, std::int64_t step, std::int32_t row);
    /// Moves all messages on. Errors: those of Communicator.
    Result<bool> test(Ticket &ticket);
    /// Polls until it is done, and records it from now on, not from when it was asked for. Error: Failed after
    /// @p deadline, naming @p what.
    Status wait(Ticket &ticket, std::chrono::nanoseconds deadline, std::string_view what);
    /// For loops that poll: sleeps for the longer, the longer nothing has moved.
    void rest();

    [[nodiscard]] std::int64_t now() const;
    /// A task of this process that began at @p started.
    void record(std::int32_t row, std::int64_t step, std::int64_t started);
    /// The row of @p id on this process; -1: the trace has none.
    [[nodiscard]] std::int32_t rowOf(std::string_view id) const { return m_rows.find(m_comm.rank(), id); }
    [[nodiscard]] comm::Communicator &communicator() { return m_comm; }

private:
    struct Transfer {
        const std::byte *out = nullptr; ///< of a message that is sent
        std::byte *in = nullptr;
        std::int64_t bytes = 0;
        std::int64_t given = 0; ///< bytes of chunks that were given to the communicator
        int peer = 0;
        int tag = 0;
        std::int64_t step = 0;
        std::int32_t row = -1;
        std::int32_t connection = -1; ///< -1: of none of the job's network
        std::int64_t started = 0;
        double before = 0; ///< on a paced network: bytes of the connection's messages in front of it
        bool begun = false;
        bool done = false;
        std::vector<comm::Request> chunks;
        std::size_t chunksDone = 0;
    };
    /// Messages that leave over one connection, in order.
    struct Queue {
        std::int32_t connection = -1;
        std::deque<std::int32_t> waiting;
        std::size_t entered = 0; ///< of them, from the front: known to the paced network
        double share = 0;        ///< bytes/s; 0: as many as the network carries
        double line = 0;         ///< bytes/s that the two cards could carry
        double since = 0;        ///< with a share: when the first message began, nanoseconds of now()
    };

    Result<Ticket> start(Transfer transfer);
    Queue &queueOf(std::int32_t connection);
    [[nodiscard]] std::int32_t connectionOf(int from, int to) const;
    Status advance();
    Status giveChunks();
    [[nodiscard]] bool begins(Queue &queue);
    [[nodiscard]] bool mayGive(const Queue &queue);
    [[nodiscard]] double shareCarries(const Queue &queue, std::int64_t bytes) const;
    [[nodiscard]] std::size_t nextQueue();
    Status give(Transfer &transfer, std::int64_t bytes);
    Status poll(Transfer &transfer);
    void finish(Transfer &transfer);
    void moved();

    const program::Program &m_program;
    comm::Communicator &m_comm;
    trace::Sink &m_sink;
    program::RoleRows m_rows;
    gnn::Network m_network;
    std::int64_t m_chunkBytes;
    std::unique_ptr<PacedNetwork> m_paced;
    std::vector<double> m_shares; ///< per connection; empty unless cards have fixed shares
    std::int64_t m_origin = 0;
    std::vector<Transfer> m_transfers;
    std::vector<std::int32_t> m_free;
    std::vector<std::int32_t> m_live;
    std::vector<Queue> m_queues;
    std::size_t m_turn = 0;   ///< the queue whose chunk left last
    int m_leaving = 0;        ///< chunks under way
    std::int64_t m_moved = 0; ///< when something did
    Rest m_rest;
};

} // namespace planloom::runtime
