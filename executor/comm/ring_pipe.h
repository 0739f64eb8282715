// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/doorbell.h"
#include "executor/comm/pipe.h"

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace planloom::comm {

/// A Pipe through memory that two threads or two processes share: one ring of bytes per direction. The sender copies
/// in; the receiver adds, or copies, directly out of the ring. Every piece has a header line, so that members that call
/// different collectives get an error.
class RingPipe final : public Pipe {
public:
    /// Memory of one direction. It must begin as zeros, on a page.
    static constexpr std::int64_t kCapacity = 256 * 1024; ///< two chunks: one is filled while the other is emptied
    static constexpr std::int64_t kBytes = kCapacity + 4096;

    /// @p bell: the peer's, rung when there is something for it, or room.
    RingPipe(std::byte *outgoing, std::byte *incoming, int rank, int peer, Doorbell bell);

    Status send(const std::byte *data, std::int64_t bytes, const Label &label) override;
    Status receive(const Incoming &piece, const Label &label) override;
    Status progress() override;

private:
    struct Control;
    struct Line;
    struct Out {
        const std::byte *data;
        std::int64_t bytes;
        Label label;
    };
    struct In {
        Incoming piece;
        Label label;
    };
    bool pushSome();
    Result<bool> pullSome();
    [[nodiscard]] Status compare(const Line &line, const In &expected) const;

    std::byte *m_out;
    std::byte *m_in;
    int m_rank;
    int m_peer;
    Doorbell m_bell;
    std::array<Out, kWindow> m_sends{};
    std::array<In, kWindow> m_receives{};
    std::int64_t m_sent = -1; ///< bytes of the piece at hand that are in the ring; -1: its line is not there yet
    std::int64_t m_received =
        -1;                      ///< bytes of the piece at hand that are out of the ring; -1: its line was not read yet
    std::uint64_t m_written = 0; ///< this end's copies of the ring's counters
    std::uint64_t m_freed = 0;
    std::uint64_t m_read = 0;
    std::uint64_t m_filled = 0;
};

/// The pipe from position @p mine to @p peer of @p ranks, in memory of ranks.size() squared times RingPipe::kBytes that
/// all of them share. @p bell: the peer's.
std::unique_ptr<Pipe> ringBetween(std::byte *memory, std::span<const int> ranks, std::size_t mine, std::size_t peer,
                                  Doorbell bell = {});

} // namespace planloom::comm
