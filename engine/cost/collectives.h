// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

/// Traffic of the engine's collectives, to the byte: the one description that both the planner's side and executor/comm
/// are made from. Members are numbered by their position in the group. Only payload counts: every byte that leaves a
/// member for another one, once.
///
/// | collective    | `bytes` is            | sent by all members together |
/// |---------------|-----------------------|------------------------------|
/// | AllReduce     | the whole data        | 2 (p - 1) bytes              |
/// | ReduceScatter | one member's result   | p (p - 1) bytes              |
/// | AllGather     | one member's part     | p (p - 1) bytes              |
/// | AllToAll      | one piece of p        | p (p - 1) bytes              |
/// | Broadcast     | the whole data        | (p - 1) bytes                |
///
/// An all-to-all with unequal pieces: unequalAllToAllBytesOf() each member.
///
/// An all-reduce is a reduce-scatter and an all-gather over p segments of the data's elements that differ by at most
/// one element, longer ones first. So each member sends 2 (p - 1) / p of the bytes where p divides the elements.
namespace planloom::cost {

enum class Collective : std::uint8_t { AllReduce, ReduceScatter, AllGather, AllToAll, Broadcast };
inline constexpr std::size_t kCollectives = 5;

/// The name that people read: "all-reduce".
constexpr const char *name(Collective kind)
{
    constexpr const char *kNames[kCollectives] = {"all-reduce", "reduce-scatter", "all-gather", "all-to-all",
                                                  "broadcast"};
    return kNames[static_cast<std::size_t>(kind)];
}

/// The elements [begin, end).
struct Segment {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    [[nodiscard]] constexpr std::int64_t size() const { return end - begin; }
};

/// Elements that @p position of @p members adds up in an all-reduce of @p count elements.
constexpr Segment segmentOf(std::int64_t count, int members, int position)
{
    const std::int64_t each = count / members;
    const std::int64_t longer = count % members;
    const std::int64_t begin = position * each + std::min<std::int64_t>(position, longer);
    return {begin, begin + each + (position < longer ? 1 : 0)};
}

/// From this many bytes of data per member on, more than two members pass data round a ring (each talks to its
/// neighbours only, and the bandwidth of every link is used); below it every member talks to every other one, which
/// takes two message times instead of 2 (p - 1).
inline constexpr std::int64_t kRingFrom = 64 * 1024;

/// Whether a collective of @p bytes (as in the table) goes round a ring.
constexpr bool goesRound(Collective kind, std::int64_t bytes, int members)
{
    if (members <= 2 || kind == Collective::ReduceScatter || kind == Collective::AllToAll)
        return false;
    return (kind == Collective::AllReduce ? bytes / members : bytes) >= kRingFrom;
}

/// Bytes that all members together send.
constexpr std::int64_t collectiveBytes(Collective kind, std::int64_t bytes, int members)
{
    if (members < 2)
        return 0;
    const std::int64_t others = members - 1;
    switch (kind) {
    case Collective::AllReduce: return 2 * others * bytes;
    case Collective::Broadcast: return others * bytes;
    default: return members * others * bytes;
    }
}

/// Bytes that the member at @p position sends. @p elementBytes: of an all-reduce's elements; @p root: position of a
/// broadcast's source.
constexpr std::int64_t collectiveBytesOf(Collective kind, std::int64_t bytes, int members, int position,
                                         std::int64_t elementBytes = 4, int root = 0)
{
    if (members < 2)
        return 0;
    const std::int64_t others = members - 1;
    const bool round = goesRound(kind, bytes, members);
    if (kind == Collective::Broadcast) {
        const int last = (root + members - 1) % members;
        return round ? (position == last ? 0 : bytes) : (position == root ? others * bytes : 0);
    }
    if (kind != Collective::AllReduce)
        return others * bytes;
    const std::int64_t count = bytes / elementBytes;
    const std::int64_t mine = segmentOf(count, members, position).size();
    const std::int64_t next = segmentOf(count, members, (position + 1) % members).size();
    return (count - mine + (round ? count - next : others * mine)) * elementBytes;
}

/// Bytes that the member at @p position sends in an all-to-all with unequal pieces, of which @p bytesTo[i] are for
/// member i.
constexpr std::int64_t unequalAllToAllBytesOf(std::span<const std::int64_t> bytesTo, int position)
{
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < bytesTo.size(); ++i)
        sum += i == static_cast<std::size_t>(position) ? 0 : bytesTo[i];
    return sum;
}

} // namespace planloom::cost
