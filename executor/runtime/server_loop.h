// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/role_link.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace planloom::runtime {

/// What a worker asks of a server; its data follow it.
struct ServerRequest {
    static constexpr std::int64_t kEnd = 0; ///< it sends no further ones; a server's own kinds begin behind it
    std::int64_t kind = kEnd;
    std::int64_t step = 0;
    std::int64_t part = 0; ///< of what is served
    std::int64_t reserved = 0;
};

/// What a server does with what workers send. Workers are numbered as they are listed.
class ServerWork {
public:
    virtual ~ServerWork() = default;
    /// Where the data of a request go; as long as they are, and untouched until arrived(). Empty: it has none. Error:
    /// Failed (no such request).
    virtual Result<std::span<std::byte>> room(int worker, const ServerRequest &request) = 0;
    /// The data are there. May answer any workers, now or later (ServerLoop::answer): when a version of what is served
    /// is due is the server's affair. Error: Failed.
    virtual Status arrived(int worker, const ServerRequest &request) = 0;
    /// Workers without whose data others are not answered; empty: no worker waits for another one.
    [[nodiscard]] virtual std::vector<int> waitedFor() const { return {}; }
};

/// A server's loop: polls its workers, none of which waits for another one's messages, until all have ended. It knows
/// nothing of what is served. Thread contract: one thread.
class ServerLoop {
public:
    struct Worker {
        int rank = 0;
        std::string name;
        std::int32_t dataRow = -1; ///< of the trace: what comes
        std::int32_t answerRow = -1;
    };
    /// @p link is borrowed. @p deadline: an answer takes no longer; workers may take ten times as long to ask.
    ServerLoop(RoleLink &link, std::vector<Worker> workers, std::chrono::nanoseconds deadline);

    /// Errors: those of @p work; Failed (communication, a deadline: names who did not ask).
    Status run(ServerWork &work);
    /// @p data stay untouched until answered().
    Status answer(int worker, std::int64_t part, std::span<const std::byte> data, std::int64_t step,
                  bool recorded = true);
    /// Waits until no answer about @p part is under way.
    Status answered(std::int64_t part);

private:
    enum class State : std::uint8_t { Listens, Reads, Ended };
    struct Peer {
        Worker who;
        State state = State::Listens;
        ServerRequest request;
        Ticket ticket;
    };
    struct Answer {
        int worker = 0;
        std::int64_t part = 0;
        Ticket ticket;
    };

    Status listen(Peer &peer);
    Status read(int worker, ServerWork &work);
    Result<bool> advance(int worker, ServerWork &work);
    Result<bool> leave();
    [[nodiscard]] std::string silent(const ServerWork &work) const;

    RoleLink &m_link;
    std::vector<Peer> m_peers;
    std::chrono::nanoseconds m_deadline;
    std::vector<Answer> m_answers; ///< under way
};

/// A worker's side of a request: its header, its data, and the answer if it has any. Buffers stay untouched until it is
/// done.
class ServerCall {
public:
    Status start(RoleLink &link, int server, const ServerRequest &request, std::span<const std::byte> data,
                 std::span<std::byte> answer, std::int32_t dataRow = -1, std::int32_t answerRow = -1);
    Result<bool> test(RoleLink &link);
    Status wait(RoleLink &link, std::chrono::nanoseconds deadline, const std::string &server);
    /// True from its start until a test() or wait() has seen all of it.
    [[nodiscard]] bool pending() const { return std::ranges::any_of(m_tickets, &Ticket::pending); }

private:
    ServerRequest m_request;
    std::array<Ticket, 3> m_tickets; ///< header, data, answer
};

} // namespace planloom::runtime
