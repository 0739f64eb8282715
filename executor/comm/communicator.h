// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/cost/collectives.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::comm {

class Collectives;
class Pipe;
struct Call;

/// A transfer or collective under way. Plain value; released by the test() that returns true.
struct Request {
    std::int32_t slot = -1;
    bool collective = false;
    [[nodiscard]] bool pending() const { return slot >= 0; }
};

/// What a reduction adds up. Sums of bfloat16 are rounded once per addition.
enum class Element : std::uint8_t { Float32, BFloat16 };
constexpr std::int64_t bytesOf(Element element) { return element == Element::Float32 ? 4 : 2; }

using cost::Collective;

/// A set of ranks that communicate together; made by makeGroup. Members are numbered by position in it.
struct Group {
    std::int32_t index = -1;
};

/// One rank's end of a fixed set of ranks. Everything is non-blocking: start, then test() until done; buffers stay untouched until
/// then. Messages of one (sender, receiver, tag) arrive in the order sent.
///
/// Collectives of one group are started in the same order by all members and done in that order; those of different groups, and
/// messages, are independent of them. A reduction gives the same bits on every member and in every run, over threads, shared memory
/// and MPI alike. What each member sends is described, to the byte, in engine/cost/collectives.h, and counted by bytesSent(). After the
/// first collective of its size nothing is allocated.
///
/// Thread contract: one thread per Communicator. Errors: Failed (a peer is gone, does something else, or the transport broke),
/// Unsupported (too large).
class Communicator {
public:
    virtual ~Communicator();

    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;
    /// Position among, and number of, the ranks on this machine.
    [[nodiscard]] virtual int localRank() const = 0;
    [[nodiscard]] virtual int localSize() const = 0;
    [[nodiscard]] virtual int maxTag() const = 0;

    virtual Result<Request> isend(const void *data, std::int64_t bytes, int peer, int tag) = 0;
    virtual Result<Request> irecv(void *data, std::int64_t bytes, int peer, int tag) = 0;

    /// In place: data becomes the sum over the members' data.
    Result<Request> allReduce(Group group, Element element, void *data, std::int64_t count);
    Result<Request> allReduce(Group group, float *data, std::int64_t count) { return allReduce(group, Element::Float32, data, count); }
    /// @p mine becomes the sum of the members' elements [position * countEach, (position + 1) * countEach) of @p all. They may not overlap.
    Result<Request> reduceScatter(Group group, Element element, const void *all, void *mine, std::int64_t countEach);
    /// @p all becomes the members' parts in order of position. @p mine may be its place in @p all.
    Result<Request> allGather(Group group, const void *mine, void *all, std::int64_t bytesEach);
    /// Piece i of @p from goes to member i, whose piece for this member comes to place i of @p to. They may not overlap.
    Result<Request> allToAll(Group group, const void *from, void *to, std::int64_t bytesEach);
    /// The data of the member at position @p root comes to all.
    Result<Request> broadcast(Group group, int root, void *data, std::int64_t bytes);

    /// True once @p request is done (it is released then); makes progress on everything that is under way.
    Result<bool> test(Request &request);

    /// Every rank of the Communicator calls it with the same (sorted) ranks, in the same order of calls; waits for nobody.
    Result<Group> makeGroup(std::span<const int> ranks);
    /// All ranks.
    [[nodiscard]] Group world() const { return {0}; }

    /// Payload that this rank's collectives have sent to other ranks so far.
    [[nodiscard]] std::int64_t bytesSent() const;
    [[nodiscard]] std::int64_t bytesSent(Collective kind) const;

    /// Ends the work of all ranks at once; their pending calls fail (LocalGroup) or their processes end (MPI).
    virtual void abort(std::string_view reason) = 0;

    /// Polls @p request until it is done. Error: Failed after @p deadline, naming @p what.
    Status wait(Request &request, std::chrono::nanoseconds deadline, std::string_view what);
    Status barrier(std::chrono::nanoseconds deadline);

protected:
    Communicator();

    virtual Result<bool> testMessage(Request &request) = 0;
    /// Moves messages on while only collectives are tested. Error: why everything stopped.
    virtual Status progressMessages() = 0;
    /// Pipes to the members of the group that will have index @p group, this rank among them; nullptr for itself.
    virtual Result<std::vector<std::unique_ptr<Pipe>>> makePipes(std::int32_t group, std::span<const int> ranks) = 0;

    /// Before a transport goes: what the pipes use.
    void dropCollectives();

private:
    Result<Request> start(Group group, const Call &call);

    std::unique_ptr<Collectives> m_collectives;
    std::vector<std::uint8_t> m_marks; ///< of a barrier
};

} // namespace planloom::comm
