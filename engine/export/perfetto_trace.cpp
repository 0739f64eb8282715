// SPDX-License-Identifier: Apache-2.0
// Perfetto's protocol buffers by its public schema (Trace, TracePacket, TrackDescriptor, TrackEvent, InternedData),
// written packet by packet: a tree of millions of events would not fit.
#include "engine/base/files.h"
#include "engine/export/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace planloom::exporting {
namespace {

constexpr std::size_t kPacketsBytes = 64 * 1024;
constexpr std::uint64_t kFirstLaneTrack = std::uint64_t{1} << 32; // ranks have the numbers below

/// A message of protocol buffers.
class ProtoMessage {
public:
    ProtoMessage &number(std::uint32_t field, std::uint64_t value)
    {
        varint(std::uint64_t{field} << 3U);
        varint(value);
        return *this;
    }
    ProtoMessage &bytes(std::uint32_t field, std::string_view value)
    {
        varint(std::uint64_t{field} << 3U | 2U);
        varint(value.size());
        m_text += value;
        return *this;
    }
    ProtoMessage &message(std::uint32_t field, const ProtoMessage &value) { return bytes(field, value.m_text); }
    [[nodiscard]] const std::string &text() const { return m_text; }

private:
    void varint(std::uint64_t value)
    {
        for (; value >= 0x80; value >>= 7U)
            m_text += static_cast<char>(value | 0x80U);
        m_text += static_cast<char>(value);
    }
    std::string m_text;
};

/// Writes the packets of one sequence: what tasks are called is sent once, before its first use.
class PerfettoWriter {
public:
    PerfettoWriter(const trace::Trace &trace, const Writer &write)
        : m_trace(trace),
          m_write(write),
          m_origin(std::min<std::int64_t>(trace.begin(), 0)),
          m_isTaskSent(trace.tasks.size() + 1),
          m_isKindSent(trace.kinds.size() + 1)
    {
    }

    Status write()
    {
        constexpr std::uint64_t kStateCleared = 1;
        if (Status done = packet(ProtoMessage().number(13, kStateCleared)); !done)
            return done;
        for (const trace::Record &record : m_trace.records) {
            if (Status done = addSlice(record); !done)
                return done;
        }
        return m_write(m_packets);
    }

private:
    Status packet(ProtoMessage message)
    {
        constexpr std::uint64_t kSequence = 1;
        message.number(10, kSequence);
        m_packets += ProtoMessage().message(1, message).text();
        if (m_packets.size() < kPacketsBytes)
            return {};
        Status done = m_write(m_packets);
        m_packets.clear();
        return done;
    }

    Status addSlice(const trace::Record &record)
    {
        std::uint64_t track = 0;
        if (Status done = trackOf(record, track); !done)
            return done;
        const auto start = static_cast<std::uint64_t>(record.start - m_origin);
        constexpr std::uint64_t kBegin = 1;
        constexpr std::uint64_t kEnd = 2;
        constexpr std::uint64_t kNeedsState = 2;
        ProtoMessage begin = ProtoMessage().number(8, start).number(13, kNeedsState);
        ProtoMessage event = ProtoMessage().number(9, kBegin).number(11, track);
        nameEvent(record, event, begin);
        annotate(record, event);
        if (Status done = packet(begin.message(11, event)); !done)
            return done;
        return packet(ProtoMessage()
                          .number(8, start + static_cast<std::uint64_t>(record.duration))
                          .message(11, ProtoMessage().number(9, kEnd).number(11, track)));
    }

    /// Numbers of names are those of tasks and kinds, from 1.
    void nameEvent(const trace::Record &record, ProtoMessage &event, ProtoMessage &whole)
    {
        const trace::TaskInfo *task = m_trace.task(record.task);
        const auto name = static_cast<std::uint64_t>(task ? record.task + 1 : 0) + 1;
        const auto kind = static_cast<std::uint64_t>(task ? task->kind : trace::Kind::Other);
        ProtoMessage interned;
        const std::size_t row = std::min(static_cast<std::size_t>(kind), m_isKindSent.size() - 1);
        if (!m_isKindSent[row])
            interned.message(
                1, ProtoMessage().number(1, row + 1).bytes(2, m_trace.kind(static_cast<trace::Kind>(kind)).name));
        m_isKindSent[row] = true;
        if (!m_isTaskSent[name - 1])
            interned.message(2, ProtoMessage().number(1, name).bytes(2, task ? task->id : "?"));
        m_isTaskSent[name - 1] = true;
        if (!interned.text().empty())
            whole.message(12, interned);
        event.number(10, name).number(3, row + 1);
    }

    void annotate(const trace::Record &record, ProtoMessage &event)
    {
        if (!m_isClockSent)
            event.message(4, ProtoMessage().bytes(10, "clock").bytes(6, m_trace.clock));
        m_isClockSent = true;
        const auto add = [&event](std::string_view name, std::int64_t value) {
            if (value >= 0)
                event.message(4, ProtoMessage().bytes(10, name).number(4, static_cast<std::uint64_t>(value)));
        };
        add("step", record.step);
        if (const trace::TaskInfo *task = m_trace.task(record.task)) {
            add("stage", task->stage);
            add("micro_batch", task->microBatch);
        }
    }

    /// Slices of a track nest in Perfetto; those of a lane that overlap get tracks of their own. Records come by rank,
    /// lane and start.
    Status trackOf(const trace::Record &record, std::uint64_t &track)
    {
        if (record.rank != m_rank || record.lane != m_lane)
            m_ends.clear();
        const bool isNewRank = record.rank != m_rank && m_seenRanks.insert(record.rank).second;
        m_rank = record.rank;
        m_lane = record.lane;
        if (isNewRank)
            if (Status done = describeRank(record.rank); !done)
                return done;
        const auto isFree = std::ranges::find_if(m_ends, [&](std::int64_t end) { return end <= record.start; });
        const auto depth = static_cast<std::size_t>(isFree - m_ends.begin());
        if (isFree == m_ends.end())
            m_ends.push_back(0);
        m_ends[depth] = record.start + record.duration;
        const auto [at, isNew] =
            m_tracks.try_emplace({record.rank, record.lane, depth}, kFirstLaneTrack + m_tracks.size());
        track = at->second;
        return isNew ? describeLane(record, depth, track) : Status();
    }

    static std::uint64_t rankTrack(std::int32_t rank) { return static_cast<std::uint64_t>(rank) + 1; }

    Status describeRank(std::int32_t rank)
    {
        constexpr std::uint64_t kByRank = 3; // the order of the tracks beneath
        const auto row = static_cast<std::size_t>(rank);
        const std::string name = row < m_trace.ranks.size() ? m_trace.ranks[row].device : std::string("?");
        const ProtoMessage process = ProtoMessage().number(1, rankTrack(rank)).bytes(6, name);
        return packet(ProtoMessage().message(
            60, ProtoMessage().number(1, rankTrack(rank)).message(3, process).number(11, kByRank)));
    }

    Status describeLane(const trace::Record &record, std::size_t depth, std::uint64_t track)
    {
        const std::string &lane = m_trace.lane(record.lane).name;
        return packet(ProtoMessage().message(60,
                                             ProtoMessage()
                                                 .number(1, track)
                                                 .bytes(2, depth == 0 ? lane : fmt::format("{} ({})", lane, depth + 1))
                                                 .number(5, rankTrack(record.rank))
                                                 .number(12, static_cast<std::uint64_t>(record.lane))));
    }

    const trace::Trace &m_trace;
    const Writer &m_write;
    std::int64_t m_origin; ///< 0, or the first start where that is before
    std::vector<bool> m_isTaskSent, m_isKindSent;
    bool m_isClockSent = false;
    std::string m_packets;
    std::int32_t m_rank = -1, m_lane = -1;
    std::set<std::int32_t> m_seenRanks;
    std::vector<std::int64_t> m_ends; ///< of the last slice of each track of the lane
    std::map<std::tuple<std::int32_t, std::int32_t, std::size_t>, std::uint64_t> m_tracks;
};

Status writeInto(const std::string &path, const trace::Trace &trace,
                 Status (*make)(const trace::Trace &, const Writer &))
{
    auto file = AtomicFile::create(path);
    if (!file)
        return file.error();
    if (auto done = make(trace, [&](std::string_view piece) { return file->write(piece); }); !done)
        return done;
    return file->commit();
}

} // namespace

Status perfettoTrace(const trace::Trace &trace, const Writer &write) { return PerfettoWriter(trace, write).write(); }

Status writeTraceAs(const trace::Trace &trace, const std::string &path)
{
    if (path.ends_with(".json"))
        return writeChromeTrace(trace, path);
    if (path.ends_with(".pftrace") || path.ends_with(".perfetto-trace"))
        return writeInto(path, trace, perfettoTrace);
    return trace::writeTrace(trace, path);
}

Status writePerfettoTrace(const trace::Trace &trace, const std::string &path)
{
    return writeInto(path, trace, perfettoTrace);
}

Status writeTaskTable(const trace::Trace &trace, const std::string &path) { return writeInto(path, trace, taskTable); }

} // namespace planloom::exporting
