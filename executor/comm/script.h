// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/pipe.h"

#include <span>
#include <vector>

namespace planloom::comm {

/// A piece that leaves. It may begin once receive `after` is done.
struct SendStep {
    const std::byte *data = nullptr;
    std::int64_t bytes = 0;
    std::int32_t peer = 0;   ///< position in the group
    std::int32_t after = -1; ///< index of a receive; -1: at once
    std::int64_t number = 0; ///< in the pipe, once given to it
};

/// A piece that comes. It may begin once receive `after` and send `afterSend` are done.
struct ReceiveStep {
    Incoming piece;
    std::int32_t peer = 0;
    std::int32_t after = -1;
    std::int32_t afterSend = -1;
    std::int64_t number = 0;
};

/// One member's arguments of a collective.
struct Call {
    Label label;
    Element element = Element::Float32;
    const std::byte *from = nullptr; ///< as the Communicator's calls have them
    std::byte *to = nullptr;
    int root = 0;
    /// Of an all-to-all with unequal pieces, per member; read while the script is written.
    std::span<const std::int64_t> bytesTo = {};
    std::span<const std::int64_t> bytesFrom = {};
};

/// One member's part of a collective: its sends and receives, each begun in this order. Pure data, made before the
/// first byte moves, so that every member's part can be inspected without a transport.
class Script {
public:
    /// Writes the steps of @p position of @p members; keeps the memory of the script before. Copies between the
    /// member's own buffers are done here.
    void write(const Call &call, int members, int position);

    [[nodiscard]] std::vector<SendStep> &sends() { return m_sends; }
    [[nodiscard]] std::vector<ReceiveStep> &receives() { return m_receives; }
    [[nodiscard]] std::int64_t bytesSent() const;

private:
    /// Bytes of the data that a member holds or adds up.
    struct Range {
        std::int64_t begin = 0;
        std::int64_t size = 0;
    };
    void cut(const Call &call);
    void allReduceDirectly(std::byte *data);
    void allReduceRound(std::byte *data);
    void gatherRound(std::byte *all, bool reduced);
    void exchange(const std::byte *from, std::byte *to);
    static void setRanges(std::span<const std::int64_t> bytes, std::vector<Range> &ranges);
    void broadcast(const Call &call, bool round);
    void reduceChunk(std::int64_t chunk, const std::byte *all, std::byte *mine);
    void gatherChunk(std::int64_t chunk, std::byte *all, bool reduced);

    [[nodiscard]] int towards(int steps) const { return (m_position + steps + m_members) % m_members; }
    [[nodiscard]] Range chunkOf(int position, std::int64_t chunk) const
    {
        return chunkOf(m_ranges[static_cast<std::size_t>(position)], chunk);
    }
    [[nodiscard]] static Range chunkOf(const Range &range, std::int64_t chunk);
    std::int32_t &sentFrom(int position, std::int64_t chunk)
    {
        return m_sentFrom[static_cast<std::size_t>(position * m_chunks + chunk)];
    }
    std::int32_t &received(std::int64_t chunk) { return m_received[static_cast<std::size_t>(chunk)]; }
    std::int32_t addSend(const std::byte *data, std::int64_t bytes, int peer, std::int32_t after = -1);
    std::int32_t addReceive(const Incoming &piece, int peer, std::int32_t after = -1, std::int32_t afterSend = -1);

    int m_members = 1;
    int m_position = 0;
    std::int64_t m_chunks = 0; ///< of the largest range
    Element m_element = Element::Float32;
    std::vector<SendStep> m_sends;
    std::vector<ReceiveStep> m_receives;
    std::vector<Range> m_ranges;          ///< per position; of an all-to-all: of the data sent
    std::vector<Range> m_incoming;        ///< per position, of an all-to-all
    std::vector<std::int32_t> m_received; ///< per chunk: its latest receive
    std::vector<std::int32_t> m_sentFrom; ///< per range and chunk: the send that reads it
};

} // namespace planloom::comm
