// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/pipe_communicator.h"
#include "executor/comm/shared_table.h"
#include "executor/comm/switch_table.h"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace planloom::comm {

/// Nanoseconds; never goes back.
using SwitchClock = std::function<std::int64_t()>;

/// What one rank has at an emulated switch: messages that it sends, and those that have come. Streams keep the messages
/// of a connection apart: tags, and the pipes of groups. Thread contract: one thread.
class SwitchEnd {
public:
    SwitchEnd(SwitchTable table, SwitchClock clock, int rank, int ranks);

    /// Whether messages to and from @p peer pass the switch.
    [[nodiscard]] bool passes(int peer) const { return m_table.hostOf(peer) != m_table.hostOf(m_rank); }
    /// Begins now, or once fewer wait; returns its number among those to @p peer.
    std::int64_t enter(int peer, std::int64_t stream, std::int64_t bytes);
    /// Whether that message has left this host.
    bool hasLeft(int peer, std::int64_t number);
    /// Whether more than @p number messages of the stream have come from @p peer.
    bool hasCome(int peer, std::int64_t stream, std::int64_t number);
    /// Enters what had to wait.
    void goOn();

private:
    struct Late {
        std::int64_t stream;
        double wireBytes;
    };
    struct Peer {
        std::int64_t given = 0;                              ///< to it, those that wait among them
        std::deque<Late> late;                               ///< of them, not entered yet
        std::unordered_map<std::int64_t, std::int64_t> come; ///< per stream
    };
    void goOn(int peer);

    SwitchTable m_table;
    SwitchClock m_clock;
    int m_rank;
    std::vector<Peer> m_peers;
};

/// Ranks of one machine as if they were on hosts behind a switch: for trials of networks where the kernel cannot shape
/// one. Bytes go through another communicator at once; a message or a collective's piece between two hosts counts as
/// sent when it has left the sender's port, and as received when it has passed the receiver's (SwitchTable). It does
/// not know what a kernel's network adds: handshakes, acknowledgements, lost packets, processor time of a byte.
class SwitchedCommunicator final : public PipeCommunicator {
public:
    /// Messages and pipes are @p inner's; its own groups are not used, and world() is to be made anew. @p table is of
    /// @p memory, or outlives this.
    SwitchedCommunicator(std::unique_ptr<PipeCommunicator> inner, SwitchTable table, SwitchClock clock,
                         SharedTable memory = {});
    ~SwitchedCommunicator() override;
    SwitchedCommunicator(const SwitchedCommunicator &) = delete;
    SwitchedCommunicator &operator=(const SwitchedCommunicator &) = delete;

    /// Collective: over @p inner's ranks, which are on one machine, by its clock; says so in the log of rank 0. Errors:
    /// BadInput (ranks are no multiple of hosts), Failed (memory, communication).
    static Result<std::unique_ptr<Communicator>> open(std::unique_ptr<PipeCommunicator> inner,
                                                      const SwitchSettings &settings);

    [[nodiscard]] int rank() const override { return m_inner->rank(); }
    [[nodiscard]] int size() const override { return m_inner->size(); }
    [[nodiscard]] int localSize() const override { return m_inner->localSize(); }
    [[nodiscard]] std::span<const int> sharers() const override { return m_inner->sharers(); }
    [[nodiscard]] int maxTag() const override { return m_inner->maxTag(); }
    Result<Request> isend(const void *data, std::int64_t bytes, int peer, int tag) override;
    Result<Request> irecv(void *data, std::int64_t bytes, int peer, int tag) override;
    void abort(std::string_view reason) override { m_inner->abort(reason); }

protected:
    Result<bool> testMessage(Request &request) override;
    Status progressMessages() override;
    Result<std::vector<std::unique_ptr<Pipe>>> makePipes(std::int32_t group, std::span<const int> ranks) override;

private:
    struct Message {
        Request inner;
        int peer = 0;
        std::int64_t stream = 0;
        std::int64_t number = 0; ///< sent: among all to the peer; received: among those of the stream
        bool passes = false;     ///< the switch
        bool sends = false;
    };
    Request keep(const Message &message);

    std::unique_ptr<PipeCommunicator> m_inner;
    SharedTable m_memory;
    SwitchEnd m_end;
    std::vector<Message> m_messages;
    std::vector<std::int32_t> m_free;
    std::vector<std::unordered_map<int, std::int64_t>> m_received; ///< per peer and tag: calls of irecv
};

} // namespace planloom::comm
