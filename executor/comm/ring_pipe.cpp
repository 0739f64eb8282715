// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/ring_pipe.h"

#include "executor/comm/add.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

namespace planloom::comm {

namespace {

constexpr std::int64_t kLine = 64; ///< of a cache; everything in a ring begins on one
constexpr std::int64_t kPublish =
    32 * 1024; ///< copied at a time, so that the receiver begins early (16 to 64 KiB measured the same)
constexpr std::int64_t kHeader = 4096;

std::int64_t padded(std::int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

} // namespace

/// At the head of a direction: bytes ever written and read, each by one side.
struct RingPipe::Control {
    alignas(kLine) std::atomic<std::uint64_t> written;
    alignas(kLine) std::atomic<std::uint64_t> read;
};

/// Before every piece.
struct RingPipe::Line {
    std::int64_t pieceBytes;
    std::int64_t bytes;
    std::int64_t sequence;
    std::int64_t kind;
};

RingPipe::RingPipe(std::byte *outgoing, std::byte *incoming, int rank, int peer, Doorbell bell)
    : m_out(outgoing),
      m_in(incoming),
      m_rank(rank),
      m_peer(peer),
      m_bell(bell)
{
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "counters are shared between processes");
    static_assert(sizeof(Control) <= kHeader && sizeof(Line) <= kLine && kCapacity % kLine == 0);
}

Status RingPipe::send(const std::byte *data, std::int64_t bytes, const Label &label)
{
    m_sends[static_cast<std::size_t>(m_sendsGiven++ % kWindow)] = {data, bytes, label};
    bool pushed = false;
    while (pushSome())
        pushed = true;
    if (pushed)
        m_bell.ring();
    return {};
}

Status RingPipe::receive(const Incoming &piece, const Label &label)
{
    m_receives[static_cast<std::size_t>(m_receivesGiven++ % kWindow)] = {piece, label};
    return {};
}

Status RingPipe::progress()
{
    bool changed = false;
    while (pushSome())
        changed = true;
    Result<bool> pulled = pullSome();
    for (; pulled && *pulled; pulled = pullSome())
        changed = true;
    if (changed)
        m_bell.ring();
    return pulled ? Status() : Status(pulled.error());
}

/// Copies as much of the oldest piece as the ring takes; false if nothing could be.
bool RingPipe::pushSome()
{
    if (m_sendsDone == m_sendsGiven)
        return false;
    Control &control = *reinterpret_cast<Control *>(m_out);
    const Out &piece = m_sends[static_cast<std::size_t>(m_sendsDone % kWindow)];
    auto free = kCapacity - static_cast<std::int64_t>(m_written - m_freed);
    if (free < kPublish + kLine) {
        m_freed = control.read.load(std::memory_order_acquire);
        free = kCapacity - static_cast<std::int64_t>(m_written - m_freed);
    }
    if (free < 2 * kLine)
        return false;
    std::byte *ring = m_out + kHeader;
    if (m_sent < 0) {
        const Line line{piece.bytes, piece.label.bytes, piece.label.sequence,
                        static_cast<std::int64_t>(piece.label.kind)};
        std::memcpy(ring + m_written % kCapacity, &line, sizeof line);
        m_written += kLine;
        free -= kLine;
        m_sent = 0;
    }
    const std::int64_t contiguous = kCapacity - static_cast<std::int64_t>(m_written % kCapacity);
    const std::int64_t bytes = std::min({piece.bytes - m_sent, free, contiguous, kPublish});
    std::memcpy(ring + m_written % kCapacity, piece.data + m_sent, static_cast<std::size_t>(bytes));
    m_sent += bytes;
    m_written += static_cast<std::uint64_t>(padded(bytes));
    control.written.store(m_written, std::memory_order_release);
    if (m_sent == piece.bytes) {
        m_sent = -1;
        ++m_sendsDone;
    }
    return true;
}

/// Takes as much of the oldest piece as has come; false if nothing has.
Result<bool> RingPipe::pullSome()
{
    if (m_receivesDone == m_receivesGiven)
        return false;
    Control &control = *reinterpret_cast<Control *>(m_in);
    if (m_filled == m_read)
        m_filled = control.written.load(std::memory_order_acquire);
    if (m_filled == m_read)
        return false;
    const In &expected = m_receives[static_cast<std::size_t>(m_receivesDone % kWindow)];
    const std::byte *ring = m_in + kHeader;
    if (m_received < 0) {
        Line line{};
        std::memcpy(&line, ring + m_read % kCapacity, sizeof line);
        if (const Status status = compare(line, expected); !status)
            return status.error();
        m_read += kLine;
        m_received = 0;
    }
    const auto filled = static_cast<std::int64_t>(m_filled - m_read);
    const std::int64_t contiguous = kCapacity - static_cast<std::int64_t>(m_read % kCapacity);
    const Incoming &piece = expected.piece;
    const std::int64_t bytes = std::min({piece.bytes - m_received, filled, contiguous});
    const std::byte *data = ring + m_read % kCapacity;
    if (piece.addend != nullptr)
        add(piece.element, piece.addend + m_received, data, piece.data + m_received, static_cast<std::size_t>(bytes));
    else
        std::memcpy(piece.data + m_received, data, static_cast<std::size_t>(bytes));
    m_received += bytes;
    m_read += static_cast<std::uint64_t>(padded(bytes));
    control.read.store(m_read, std::memory_order_release);
    if (m_received == piece.bytes) {
        m_received = -1;
        ++m_receivesDone;
    }
    return true;
}

namespace {

std::string sizeText(std::int64_t bytes)
{
    return bytes == kUnequal ? std::string("unequal pieces") : std::to_string(bytes) + " bytes";
}

} // namespace

Status RingPipe::compare(const Line &line, const In &expected) const
{
    const Label &mine = expected.label;
    if (line.pieceBytes == expected.piece.bytes && line.bytes == mine.bytes && line.sequence == mine.sequence
        && line.kind == static_cast<std::int64_t>(mine.kind))
        return {};
    const bool known = line.kind >= 0 && line.kind < static_cast<std::int64_t>(cost::kCollectives);
    const std::string theirs = known ? cost::name(static_cast<Collective>(line.kind)) : "something else";
    return failed("ranks " + std::to_string(m_rank) + " and " + std::to_string(m_peer)
                  + " do different things with one group: " + cost::name(mine.kind) + " of " + sizeText(mine.bytes)
                  + " here (number " + std::to_string(mine.sequence) + "), " + theirs + " of " + sizeText(line.bytes)
                  + " there (number " + std::to_string(line.sequence) + ")");
}

std::unique_ptr<Pipe> ringBetween(std::byte *memory, std::span<const int> ranks, std::size_t mine, std::size_t peer,
                                  Doorbell bell)
{
    const auto direction = [&](std::size_t from, std::size_t to) {
        return memory + static_cast<std::int64_t>(from * ranks.size() + to) * RingPipe::kBytes;
    };
    return std::make_unique<RingPipe>(direction(mine, peer), direction(peer, mine), ranks[mine], ranks[peer], bell);
}

} // namespace planloom::comm
