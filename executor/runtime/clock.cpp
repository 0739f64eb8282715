// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/clock.h"

#include <cstdlib>
#include <limits>

namespace planloom::runtime {

namespace {

constexpr int kRounds = 16; ///< round trips per rank; the shortest counts
constexpr int kTag = 0;

class Pair {
public:
    Pair(comm::Communicator &communicator, int peer, std::chrono::nanoseconds deadline)
        : m_comm(communicator),
          m_peer(peer),
          m_deadline(deadline)
    {
    }

    Status send(std::int64_t value) { return done(m_comm.isend(&value, sizeof value, m_peer, kTag)); }
    Status receive(std::int64_t &value) { return done(m_comm.irecv(&value, sizeof value, m_peer, kTag)); }

private:
    Status done(Result<comm::Request> request)
    {
        if (!request)
            return request.error();
        return m_comm.wait(*request, m_deadline, "the clocks to be compared");
    }

    comm::Communicator &m_comm;
    int m_peer;
    std::chrono::nanoseconds m_deadline;
};

/// Rank 0's side: sends the peer its clock's time at @p origin.
Status tellOrigin(Pair pair, std::int64_t origin)
{
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
    std::int64_t offset = 0;
    for (int round = 0; round < kRounds; ++round) {
        std::int64_t theirs = 0;
        const std::int64_t begin = monotonicNanoseconds();
        if (const Status status = pair.send(begin); !status)
            return status;
        if (const Status status = pair.receive(theirs); !status)
            return status;
        const std::int64_t end = monotonicNanoseconds();
        if (end - begin >= shortest)
            continue;
        shortest = end - begin;
        offset = theirs - (begin + shortest / 2);
    }
    return pair.send(origin + (std::llabs(offset) <= shortest / 2 ? 0 : offset));
}

Status hearOrigin(Pair pair, std::int64_t &origin)
{
    for (int round = 0; round < kRounds; ++round) {
        std::int64_t theirs = 0;
        if (const Status status = pair.receive(theirs); !status)
            return status;
        if (const Status status = pair.send(monotonicNanoseconds()); !status)
            return status;
    }
    return pair.receive(origin);
}

} // namespace

std::int64_t monotonicNanoseconds()
{
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

Result<std::int64_t> agreeOnOrigin(comm::Communicator &communicator, std::chrono::nanoseconds deadline)
{
    if (const Status status = communicator.barrier(deadline); !status)
        return status.error();
    std::int64_t origin = monotonicNanoseconds();
    if (communicator.rank() != 0) {
        const Status status = hearOrigin(Pair(communicator, 0, deadline), origin);
        return status ? Result<std::int64_t>(origin) : Result<std::int64_t>(status.error());
    }
    for (int peer = 1; peer < communicator.size(); ++peer) {
        if (const Status status = tellOrigin(Pair(communicator, peer, deadline), origin); !status)
            return status.error();
    }
    return origin;
}

} // namespace planloom::runtime
