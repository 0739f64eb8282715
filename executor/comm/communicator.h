// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/cost/collectives.h"

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace planloom::comm {

/// A transfer or collective under way. Plain value; released by the test() that returns true.
struct Request {
    std::int32_t slot = -1;
    bool collective = false;
    [[nodiscard]] bool pending() const { return slot >= 0; }
};

/// Element type of a reduction. Sums of bfloat16 are rounded once per addition.
enum class Element : std::uint8_t { Float32, BFloat16, Float64 };
constexpr std::int64_t bytesOf(Element element)
{
    if (element == Element::Float64)
        return 8;
    return element == Element::Float32 ? 4 : 2;
}

using cost::Collective;

/// A set of ranks that communicate together; made by makeGroup. Members are numbered by position in it.
struct Group {
    std::int32_t index = -1;
};

/// One rank's end of a fixed set of ranks: an interface; pipe_communicator.h has the collectives over host memory.
/// Everything is non-blocking: start, then test() until done; buffers stay untouched until then. Messages of one
/// (sender, receiver, tag) arrive in the order sent.
///
/// Collectives of one group are started in the same order by all members and done in that order; those of different
/// groups, and messages, are independent of them. A reduction gives the same bits on every member and in every run,
/// over threads, shared memory and MPI alike. The traffic of each member is described, to the byte, in
/// engine/cost/collectives.h, and counted by bytesSent(). After the first collective of its size nothing is allocated.
///
/// Memory belongs to the host for pipes and messages, to a device for that device's library.
///
/// Thread contract: one thread per Communicator. Errors: Failed (a peer is gone, does something else, or the transport
/// broke), Unsupported (too large).
class Communicator {
public:
    virtual ~Communicator() = default;

    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;
    /// Ranks on this machine.
    [[nodiscard]] virtual int localSize() const = 0;
    /// Ranks that may use the same processor cores, this one among them, ascending: those of this machine and, where
    /// hosts are containers or network namespaces of one computer, of others.
    [[nodiscard]] virtual std::span<const int> sharers() const = 0;
    [[nodiscard]] virtual int maxTag() const = 0;

    virtual Result<Request> isend(const void *data, std::int64_t bytes, int peer, int tag) = 0;
    virtual Result<Request> irecv(void *data, std::int64_t bytes, int peer, int tag) = 0;

    /// In place: data becomes the sum over the members' data.
    virtual Result<Request> allReduce(Group group, Element element, void *data, std::int64_t count) = 0;
    Result<Request> allReduce(Group group, float *data, std::int64_t count)
    {
        return allReduce(group, Element::Float32, data, count);
    }
    /// @p mine becomes the sum of the members' elements [position * countEach, (position + 1) * countEach) of @p all.
    /// They may not overlap.
    virtual Result<Request> reduceScatter(Group group, Element element, const void *all, void *mine,
                                          std::int64_t countEach) = 0;
    /// @p all becomes the members' parts in order of position. @p mine may be its place in @p all.
    virtual Result<Request> allGather(Group group, const void *mine, void *all, std::int64_t bytesEach) = 0;
    /// Piece i of @p from goes to member i, whose piece for this member comes to place i of @p to. They may not
    /// overlap.
    virtual Result<Request> allToAll(Group group, const void *from, void *to, std::int64_t bytesEach) = 0;
    /// With pieces of unequal size, one behind the other in order of position: bytesTo[i] go to member i, bytesFrom[i]
    /// come from it, as many as it sends. The spans are read during the call only.
    virtual Result<Request> allToAll(Group group, const void *from, std::span<const std::int64_t> bytesTo, void *to,
                                     std::span<const std::int64_t> bytesFrom) = 0;
    /// The data of the member at position @p root comes to all.
    virtual Result<Request> broadcast(Group group, int root, void *data, std::int64_t bytes) = 0;

    /// True once @p request is done (it is released then); makes progress on everything that is under way.
    virtual Result<bool> test(Request &request) = 0;

    /// Every rank of the Communicator calls it with the same (sorted) ranks, in the same order of calls; does not
    /// wait for them.
    virtual Result<Group> makeGroup(std::span<const int> ranks) = 0;
    /// Of this rank's own messages, before the first one: whom it sends to and receives from. The other ranks name the
    /// same pairs. A transport may prepare them; messages of other pairs are possible, too.
    virtual Status connect(std::span<const int> /*sendsTo*/, std::span<const int> /*receivesFrom*/) { return {}; }
    /// A call for a device's memory that is to come: a message to or from @p peer or, with peer -1, a collective.
    struct Expected {
        int peer = -1;
        bool sends = false; ///< the message
        Group group;        ///< of the collective
        std::int64_t bytes = 0;
    };
    /// Calls that may be under way together, all messages to others, all from others, or the ranges of one collective;
    /// before settle(), so that memory that they need on their way is there. Of other calls of the same kind none is
    /// under way meanwhile.
    virtual void expect(std::span<const Expected> /*together*/) {}
    /// Collective: what makeGroup and connect have begun is done when it returns. Error: Failed, after @p deadline.
    virtual Status settle(std::chrono::nanoseconds /*deadline*/) { return {}; }
    /// All ranks.
    [[nodiscard]] Group world() const { return {0}; }

    /// Payload that this rank's collectives have sent to other ranks so far.
    [[nodiscard]] std::int64_t bytesSent() const;
    [[nodiscard]] virtual std::int64_t bytesSent(Collective kind) const = 0;

    /// What this rank waits for, for an error's text; empty: nothing, or the transport does not tell.
    [[nodiscard]] virtual std::string underWay() const { return {}; }

    /// Ends the work of all ranks at once; their pending calls fail (LocalGroup) or their processes end (MPI).
    virtual void abort(std::string_view reason) = 0;

    /// True if sleep() ends when another rank has put something where test() looks: if all ranks are on this machine,
    /// and the transport can.
    [[nodiscard]] virtual bool wakes() const { return false; }
    /// What comes from here on ends the next sleep(); test once more in between. False: nothing does.
    virtual void listen(bool /*on*/) {}
    /// Until something has come; for at most @p blind while a message is under way that may end without a sign.
    virtual void sleep(std::chrono::nanoseconds /*blind*/) {}

    /// Polls @p request until it is done. Error: Failed after @p deadline, naming @p what.
    Status wait(Request &request, std::chrono::nanoseconds deadline, std::string_view what);
    /// Returns once all ranks have called it. Error: Failed, after @p deadline.
    virtual Status barrier(std::chrono::nanoseconds deadline) = 0;
};

} // namespace planloom::comm
