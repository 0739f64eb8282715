// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/script.h"

#include <algorithm>
#include <cstring>

namespace planloom::comm {

namespace {

/// Chunks that are added up before the first of them is handed round: the others have then likely sent theirs, and it
/// is still cached.
constexpr std::int64_t kLag = 1;

void copyUnlessThere(std::byte *to, const std::byte *from, std::int64_t bytes)
{
    if (to != from && bytes > 0)
        std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

} // namespace

void Script::write(const Call &call, int members, int position)
{
    m_members = members;
    m_position = position;
    m_element = call.element;
    m_sends.clear();
    m_receives.clear();
    cut(call);
    const bool round = cost::goesRound(call.label.kind, call.label.bytes, members);
    const Range mine = m_ranges[static_cast<std::size_t>(position)];
    switch (call.label.kind) {
    case Collective::AllReduce: round ? allReduceRound(call.to) : allReduceDirectly(call.to); break;
    case Collective::ReduceScatter:
        if (members == 1)
            copyUnlessThere(call.to, call.from, mine.size);
        for (std::int64_t chunk = 0; chunk < m_chunks; ++chunk)
            reduceChunk(chunk, call.from, call.to);
        break;
    case Collective::AllGather:
        copyUnlessThere(call.to + mine.begin, call.from, mine.size);
        if (round)
            gatherRound(call.to, false);
        for (std::int64_t chunk = 0; chunk < m_chunks && !round; ++chunk)
            gatherChunk(chunk, call.to, false);
        break;
    case Collective::AllToAll:
        copyUnlessThere(call.to + m_incoming[static_cast<std::size_t>(position)].begin, call.from + mine.begin,
                        mine.size);
        exchange(call.from, call.to);
        break;
    case Collective::Broadcast: broadcast(call, round); break;
    }
}

std::int64_t Script::bytesSent() const
{
    std::int64_t bytes = 0;
    for (const SendStep &step : m_sends)
        bytes += step.bytes;
    return bytes;
}

/// The owner of each piece, and the number of its chunks.
void Script::cut(const Call &call)
{
    m_ranges.resize(static_cast<std::size_t>(m_members));
    const std::int64_t unit = bytesOf(call.element);
    std::int64_t largest = 0;
    for (int position = 0; position < m_members; ++position) {
        Range &range = m_ranges[static_cast<std::size_t>(position)];
        const cost::Segment segment = cost::segmentOf(call.label.bytes / unit, m_members, position);
        if (call.label.kind == Collective::AllReduce)
            range = {segment.begin * unit, segment.size() * unit};
        else if (call.label.kind == Collective::Broadcast)
            range = {0, call.label.bytes};
        else
            range = {position * call.label.bytes, call.label.bytes};
        largest = std::max(largest, range.size);
    }
    if (call.label.kind == Collective::AllToAll) {
        m_incoming = m_ranges;
        if (call.label.bytes == kUnequal) {
            setRanges(call.bytesTo, m_ranges);
            setRanges(call.bytesFrom, m_incoming);
        }
        for (const auto *ranges : {&m_ranges, &m_incoming}) {
            for (const Range &range : *ranges)
                largest = std::max(largest, range.size);
        }
    }
    m_chunks = (largest + Pipe::kChunk - 1) / Pipe::kChunk;
    m_received.assign(static_cast<std::size_t>(m_chunks), -1);
    m_sentFrom.assign(static_cast<std::size_t>(m_chunks * m_members), -1);
}

/// One behind the other.
void Script::setRanges(std::span<const std::int64_t> bytes, std::vector<Range> &ranges)
{
    std::int64_t begin = 0;
    for (std::size_t position = 0; position < bytes.size(); ++position) {
        ranges[position] = {begin, bytes[position]};
        begin += bytes[position];
    }
}

Script::Range Script::chunkOf(const Range &range, std::int64_t chunk)
{
    const std::int64_t begin = chunk * Pipe::kChunk;
    return {range.begin + begin, std::clamp<std::int64_t>(range.size - begin, 0, Pipe::kChunk)};
}

std::int32_t Script::addSend(const std::byte *data, std::int64_t bytes, int peer, std::int32_t after)
{
    if (bytes == 0)
        return -1;
    m_sends.push_back({data, bytes, peer, after, 0});
    return static_cast<std::int32_t>(m_sends.size() - 1);
}

std::int32_t Script::addReceive(const Incoming &piece, int peer, std::int32_t after, std::int32_t afterSend)
{
    if (piece.bytes == 0)
        return after;
    m_receives.push_back({piece, peer, after, afterSend, 0});
    return static_cast<std::int32_t>(m_receives.size() - 1);
}

// --- Every member with every other one -------------------------------------------------------------------------------
// In step t a member sends to the one t places before it and receives from the one t places behind: the nth piece sent
// is the nth piece expected, so the order alone keeps all of them going.

/// One chunk of every member's range goes to the member that adds it up: its own first, then those of the members
/// behind it in order.
void Script::reduceChunk(std::int64_t chunk, const std::byte *all, std::byte *mine)
{
    const Range own = chunkOf(m_position, chunk);
    std::byte *sum = mine + chunk * Pipe::kChunk;
    for (int t = 1; t < m_members; ++t) {
        const int to = towards(-t);
        const Range theirs = chunkOf(to, chunk);
        sentFrom(to, chunk) = addSend(all + theirs.begin, theirs.size, to);
        const std::byte *addend = t == 1 ? all + own.begin : sum;
        received(chunk) = addReceive({sum, addend, own.size, m_element}, towards(t), received(chunk));
    }
}

/// One chunk of every member's range goes to all others. @p reduced: it is a sum that was made here.
void Script::gatherChunk(std::int64_t chunk, std::byte *all, bool reduced)
{
    const Range own = chunkOf(m_position, chunk);
    const std::int32_t sum = reduced ? received(chunk) : -1;
    for (int t = 1; t < m_members; ++t) {
        addSend(all + own.begin, own.size, towards(-t), sum);
        const int from = towards(t);
        const Range theirs = chunkOf(from, chunk);
        addReceive({all + theirs.begin, nullptr, theirs.size, m_element}, from, -1,
                   reduced ? sentFrom(from, chunk) : -1);
    }
}

void Script::allReduceDirectly(std::byte *data)
{
    std::byte *mine = data + m_ranges[static_cast<std::size_t>(m_position)].begin;
    for (std::int64_t chunk = 0; chunk < m_chunks + kLag; ++chunk) {
        if (chunk < m_chunks)
            reduceChunk(chunk, data, mine);
        if (chunk >= kLag)
            gatherChunk(chunk - kLag, data, true);
    }
}

/// Steps of all members are in order of (chunk, t), so that unequal pieces cannot make them wait for each other in a
/// circle: the first step that is not done can always go on.
void Script::exchange(const std::byte *from, std::byte *to)
{
    for (std::int64_t chunk = 0; chunk < m_chunks; ++chunk) {
        for (int t = 1; t < m_members; ++t) {
            const Range out = chunkOf(towards(-t), chunk);
            const Range in = chunkOf(m_incoming[static_cast<std::size_t>(towards(t))], chunk);
            addSend(from + out.begin, out.size, towards(-t));
            addReceive({to + in.begin, nullptr, in.size, m_element}, towards(t));
        }
    }
}

// --- Round a ring ---------------------------------------------------------------------------------------------------
// Every member receives from the one before it and sends to the one behind it.

/// In step s a member passes on the sums of range (position - 1 - s), until its own range has been everywhere
/// (Patarasuk and Yuan, 2009, section 3), then the sums.
void Script::allReduceRound(std::byte *data)
{
    for (int s = 0; s + 1 < m_members; ++s) {
        for (std::int64_t chunk = 0; chunk < m_chunks; ++chunk) {
            const int out = towards(-1 - s);
            const Range sent = chunkOf(out, chunk);
            const Range added = chunkOf((out + m_members - 1) % m_members, chunk);
            const std::int32_t before = s == 0 ? -1 : received(chunk);
            sentFrom(out, chunk) = addSend(data + sent.begin, sent.size, towards(1), before);
            received(chunk) =
                addReceive({data + added.begin, data + added.begin, added.size, m_element}, towards(-1), before);
        }
    }
    gatherRound(data, true);
}

void Script::gatherRound(std::byte *all, bool reduced)
{
    for (int s = 0; s + 1 < m_members; ++s) {
        for (std::int64_t chunk = 0; chunk < m_chunks; ++chunk) {
            const Range sent = chunkOf(towards(-s), chunk);
            const int in = towards(-1 - s);
            const Range taken = chunkOf(in, chunk);
            const std::int32_t before = s == 0 && !reduced ? -1 : received(chunk);
            addSend(all + sent.begin, sent.size, towards(1), before);
            received(chunk) = addReceive({all + taken.begin, nullptr, taken.size, m_element}, towards(-1), before,
                                         reduced ? sentFrom(in, chunk) : -1);
        }
    }
}

void Script::broadcast(const Call &call, bool round)
{
    const int behind = (m_position - call.root + m_members) % m_members; // places behind the root
    for (std::int64_t chunk = 0; chunk < m_chunks; ++chunk) {
        const Range all = chunkOf(m_position, chunk);
        std::int32_t received = -1;
        if (behind > 0)
            received = addReceive({call.to + all.begin, nullptr, all.size, m_element}, round ? towards(-1) : call.root);
        if (round && behind + 1 < m_members)
            addSend(call.to + all.begin, all.size, towards(1), received);
        for (int t = 1; t < m_members && !round && behind == 0; ++t)
            addSend(call.to + all.begin, all.size, towards(t));
    }
}

} // namespace planloom::comm
