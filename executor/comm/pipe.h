// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/communicator.h"

#include <cstddef>

namespace planloom::comm {

inline constexpr std::int64_t kUnequal = -1;

/// The arguments of a collective, which must be equal on all members.
struct Label {
    Collective kind = Collective::AllReduce;
    std::int64_t bytes = 0;    ///< as in cost::collectiveBytes; kUnequal: of an all-to-all with unequal pieces
    std::int64_t sequence = 0; ///< of the group's collectives
};

/// A part of a collective's data that is received: the bytes as they come, or their sum with @p addend.
struct Incoming {
    std::byte *data = nullptr;
    const std::byte *addend = nullptr; ///< nullptr: nothing is added
    std::int64_t bytes = 0;
    Element element = Element::Float32;
};

/// Both directions between two members of a group, in order and without tags. At most kWindow pieces of at most kChunk
/// bytes are under way in each direction. Both ends cut the data alike.
class Pipe {
public:
    static constexpr std::int64_t kChunk = 128 * 1024; ///< fits a core's L2 twice: sums are sent on from the cache
    static constexpr std::int64_t kWindow =
        16; ///< of a network; ranks that compute, too, look at it every few milliseconds

    virtual ~Pipe() = default;
    /// Each piece gets the next number, from 0. Preconditions: the windows have room.
    virtual Status send(const std::byte *data, std::int64_t bytes, const Label &label) = 0;
    virtual Status receive(const Incoming &piece, const Label &label) = 0;
    /// Moves both directions on.
    virtual Status progress() = 0;

    /// Pieces that were given, and pieces that are done (their buffers are free, or hold the received data).
    [[nodiscard]] std::int64_t sendsGiven() const { return m_sendsGiven; }
    [[nodiscard]] std::int64_t sendsDone() const { return m_sendsDone; }
    [[nodiscard]] std::int64_t receivesGiven() const { return m_receivesGiven; }
    [[nodiscard]] std::int64_t receivesDone() const { return m_receivesDone; }

protected:
    std::int64_t m_sendsGiven = 0;
    std::int64_t m_sendsDone = 0;
    std::int64_t m_receivesGiven = 0;
    std::int64_t m_receivesDone = 0;
};

} // namespace planloom::comm
