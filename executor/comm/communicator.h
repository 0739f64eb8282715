// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace planloom::comm {

/// A transfer or reduction under way. Plain value; released by the test() that returns true.
struct Request {
    std::int32_t slot = -1;
    [[nodiscard]] bool pending() const { return slot >= 0; }
};

/// What a reduction adds up. Sums of bfloat16 are rounded once per addition.
enum class Element : std::uint8_t { Float32, BFloat16 };

/// A set of ranks that communicate together; made by makeGroup.
struct Group {
    std::int32_t index = -1;
};

/// One rank's end of a fixed set of ranks. Everything is non-blocking: start, then test() until done; buffers stay untouched until
/// then. Messages of one (sender, receiver, tag) arrive in the order sent. A reduction's result is the same in every run of the
/// same layout, on every member bit for bit.
/// Thread contract: one thread per Communicator. Errors: Failed (a peer is gone or the transport broke), Unsupported (too large).
class Communicator {
public:
    virtual ~Communicator() = default;

    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;
    /// Position among, and number of, the ranks on this machine.
    [[nodiscard]] virtual int localRank() const = 0;
    [[nodiscard]] virtual int localSize() const = 0;
    [[nodiscard]] virtual int maxTag() const = 0;

    virtual Result<Request> isend(const void *data, std::int64_t bytes, int peer, int tag) = 0;
    virtual Result<Request> irecv(void *data, std::int64_t bytes, int peer, int tag) = 0;
    /// In place: data becomes the sum over the members' data. Collectives of one group are started in the same order by all members; several
    /// may be under way.
    virtual Result<Request> allReduce(Group group, float *data, std::int64_t count) = 0;
    /// True once @p request is done (it is released then); makes progress on everything that is under way.
    virtual Result<bool> test(Request &request) = 0;

    /// Collective: every rank of the Communicator calls it with the same (sorted) ranks, in the same order of calls.
    virtual Result<Group> makeGroup(std::span<const int> ranks) = 0;
    /// All ranks.
    [[nodiscard]] virtual Group world() const = 0;

    /// Ends the work of all ranks at once; their pending calls fail (LocalGroup) or their processes end (MPI).
    virtual void abort(std::string_view reason) = 0;

    /// Polls @p request until it is done. Error: Failed after @p deadline, naming @p what.
    Status wait(Request &request, std::chrono::nanoseconds deadline, std::string_view what);
    Status barrier(std::chrono::nanoseconds deadline);
};

} // namespace planloom::comm
