// SPDX-License-Identifier: Apache-2.0
// WireField numbers by Perfetto's public schema (TracePacket, TrackEvent, TrackDescriptor, InternedData,
// ClockSnapshot).
#include "engine/import/trace/perfetto_trace.h"

#include "engine/import/trace/slices.h"
#include "engine/import/trace/wire_message.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fcntl.h>

namespace planloom::import {

namespace {

namespace wire = google::protobuf::io;

constexpr std::size_t kMostPacketBytes = 64 << 20;
constexpr std::int64_t kMostTime = std::int64_t{1} << 61;

/// A clock as a sequence's packets count it: nanoseconds = (value * unit) + toTrace.
struct Clock {
    std::int64_t unit = 1;
    bool incremental = false;
    std::int64_t last = 0; ///< value of an incremental clock at the last packet
    std::int64_t toTrace = 0;
};

/// What the packets of one writer share.
struct PacketSequence {
    std::unordered_map<std::uint64_t, std::string> names, categories;
    std::map<std::uint32_t, Clock> clocks; ///< those of numbers 64 to 127, which are the sequence's own
    std::uint32_t clock = 0;               ///< default, 0: the trace's
    std::uint64_t track = 0;               ///< default
};

struct Track {
    std::string process; ///< key of the collector
    std::string thread;
    std::string counter = {}; ///< name of a counter's track
    double unit = 1;          ///< of a counter's values
    double sum = 0;
    bool adds = false; ///< a counter's values are differences
};

/// A track event; views are valid while its packet is.
struct TrackEvent {
    std::uint64_t type = 0;
    std::optional<std::uint64_t> track;
    std::string_view name, category;
    char phase = '\0';          ///< of the older form
    std::int64_t duration = -1; ///< nanoseconds, of the older form
    bool olderTimes = false;    ///< times beside the packet's own
    std::int64_t step = -1, stage = -1, microBatch = -1;
    std::string_view clock;
    std::optional<double> value; ///< of a counter
};

class PerfettoReader {
public:
    explicit PerfettoReader(Progress &progress) : m_progress(progress) {}

    Status readFile(const std::string &path)
    {
        const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (file < 0)
            return ioError(fmt::format("cannot be opened: {}", systemReason()));
        wire::FileInputStream plain(file);
        plain.SetCloseOnDelete(true);
        std::error_code unknown;
        m_bytes = std::filesystem::file_size(path, unknown);
        const void *head = nullptr;
        int size = 0;
        const bool any = plain.Next(&head, &size);
        const bool packed = any && size >= 2 && static_cast<const std::uint8_t *>(head)[0] == 0x1f
            && static_cast<const std::uint8_t *>(head)[1] == 0x8b;
        if (any)
            plain.BackUp(size);
        if (!packed)
            return readPackets(plain, plain);
        wire::GzipInputStream unpacked(&plain);
        return readPackets(unpacked, plain);
    }

    ForeignTrace finish()
    {
        for (const auto &[what, count] : m_left)
            m_notes.push_back(fmt::format("{} {}", count, what));
        const std::int64_t open = m_slices.openSlices();
        if (open > 0)
            m_notes.push_back(fmt::format("{} slices never ended and are left out", open));
        if (m_cut)
            m_notes.emplace_back("the file is cut short: what stands before is shown");
        m_slices.setDropped(m_dropped + open);
        ForeignTrace made;
        made.trace = m_slices.finish(&made.origin);
        made.notes = std::move(m_notes);
        return made;
    }

private:
    Status readPackets(wire::ZeroCopyInputStream &in, const wire::FileInputStream &file)
    {
        std::string packet;
        std::int64_t packets = 0;
        for (;; ++packets) {
            wire::CodedInputStream coded(&in); // one counts at most 2 GiB
            const std::uint32_t tag = coded.ReadTag();
            if (tag == 0 && (coded.ConsumedEntireMessage() || packets > 0)) {
                m_cut = !coded.ConsumedEntireMessage();
                break;
            }
            std::uint32_t size = 0;
            const bool isPacket = tag == ((1U << 3) | 2U) && coded.ReadVarint32(&size);
            if (!isPacket || size > kMostPacketBytes)
                return badInput(fmt::format("byte {} begins no packet of a Perfetto trace; the file is damaged, or of "
                                            "another program",
                                            in.ByteCount()));
            if (!coded.ReadString(&packet, static_cast<int>(size))) {
                m_cut = true;
                break;
            }
            readPacket(packet, true);
            if (packets % 4096 == 0) {
                m_progress.report(m_bytes == 0 ? -1
                                               : static_cast<double>(file.ByteCount()) / static_cast<double>(m_bytes),
                                  "reading packets");
                if (m_progress.stopped())
                    return cancelled();
            }
        }
        if (packets == 0)
            return badInput("the file has no packets of a trace");
        return {};
    }

    /// The parts of a packet come in any order, so that they are collected before they are used.
    void readPacket(std::string_view bytes, bool mayUnpack)
    {
        WireMessage message(bytes);
        std::optional<std::uint64_t> time, clock;
        std::uint64_t writer = 0, flags = 0;
        bool cleared = false;
        std::string_view event, track, interned, defaults, snapshot, packed;
        bool others = false;
        for (WireField field; message.next(field);) {
            switch (field.number) {
            case 6: snapshot = field.bytes; break;
            case 8: time = field.value; break;
            case 10: writer = field.value; break;
            case 11: event = field.bytes; break;
            case 12: interned = field.bytes; break;
            case 13: flags = field.value; break;
            case 41: cleared = field.value != 0; break;
            case 50: packed = field.bytes; break;
            case 58: clock = field.value; break;
            case 59: defaults = field.bytes; break;
            case 60: track = field.bytes; break;
            case 1: // of the kernel
            case 2: // processes
            case 7: // the system's state
            case 9: others = true; break;
            default: break; // settings and statistics of the tracer, and sources that say nothing of time
            }
        }
        PacketSequence &sequence = m_sequences[writer];
        constexpr std::uint64_t kIncrementalStateCleared = 1;
        if (cleared || (flags & kIncrementalStateCleared) != 0) {
            sequence.names.clear();
            sequence.categories.clear();
            sequence.clock = 0;
            sequence.track = 0;
        }
        if (!defaults.empty())
            readDefaults(defaults, sequence);
        if (!interned.empty())
            readInterned(interned, sequence);
        if (!snapshot.empty())
            readSnapshot(snapshot, sequence);
        if (!track.empty())
            readTrack(track);
        if (!packed.empty() && mayUnpack)
            unpack(packed);
        if (others)
            ++m_left["packets of the kernel and of processes are not shown"];
        if (event.data())
            addEvent(event, sequence, time, clock ? static_cast<std::uint32_t>(*clock) : sequence.clock);
    }

    void unpack(std::string_view packed)
    {
        wire::ArrayInputStream in(packed.data(), static_cast<int>(packed.size()));
        wire::GzipInputStream unpacked(&in, wire::GzipInputStream::ZLIB);
        std::string packet;
        std::size_t total = 0;
        for (;;) {
            wire::CodedInputStream coded(&unpacked);
            std::uint32_t size = 0;
            if (coded.ReadTag() != ((1U << 3) | 2U) || !coded.ReadVarint32(&size) || size > kMostPacketBytes
                || (total += size) > kMostPacketBytes || !coded.ReadString(&packet, static_cast<int>(size)))
                return;
            readPacket(packet, false);
        }
    }

    static void readDefaults(std::string_view bytes, PacketSequence &sequence)
    {
        WireMessage message(bytes);
        for (WireField field; message.next(field);) {
            if (field.number == 58)
                sequence.clock = static_cast<std::uint32_t>(field.value);
            WireMessage events(field.number == 11 ? field.bytes : std::string_view());
            for (WireField of; events.next(of);) {
                if (of.number == 11)
                    sequence.track = of.value;
            }
        }
    }

    static void readInterned(std::string_view bytes, PacketSequence &sequence)
    {
        WireMessage message(bytes);
        for (WireField field; message.next(field);) {
            if (field.number != 1 && field.number != 2)
                continue;
            WireMessage entry(field.bytes);
            std::uint64_t id = 0;
            std::string_view text;
            for (WireField of; entry.next(of);) {
                if (of.number == 1)
                    id = of.value;
                else if (of.number == 2)
                    text = of.bytes;
            }
            (field.number == 1 ? sequence.categories : sequence.names)[id] = text;
        }
    }

    /// Readings of several clocks at one moment. The trace's own is the primary one, else the time since boot (6).
    void readSnapshot(std::string_view bytes, PacketSequence &sequence)
    {
        struct Reading {
            std::uint32_t id = 0;
            Clock clock;
        };
        std::vector<Reading> readings;
        std::uint32_t primary = 6;
        WireMessage message(bytes);
        for (WireField field; message.next(field);) {
            if (field.number == 2)
                primary = static_cast<std::uint32_t>(field.value);
            if (field.number != 1)
                continue;
            Reading reading;
            std::uint64_t time = 0;
            WireMessage of(field.bytes);
            for (WireField part; of.next(part);) {
                if (part.number == 1)
                    reading.id = static_cast<std::uint32_t>(part.value);
                else if (part.number == 2)
                    time = part.value;
                else if (part.number == 3)
                    reading.clock.incremental = part.value != 0;
                else if (part.number == 4)
                    reading.clock.unit =
                        static_cast<std::int64_t>(std::clamp<std::uint64_t>(part.value, 1, 1'000'000'000));
            }
            reading.clock.last = static_cast<std::int64_t>(std::min<std::uint64_t>(time, kMostTime));
            readings.push_back(reading);
        }
        const auto own = std::find_if(readings.begin(), readings.end(), [&](const auto &r) { return r.id == primary; });
        for (Reading &reading : readings) {
            const auto now = nanoseconds(reading.clock, reading.clock.last);
            if (own != readings.end() && now)
                reading.clock.toTrace = own->clock.last - *now;
            constexpr std::uint32_t kFirstOfSequence = 64, kLastOfSequence = 127;
            const bool local = reading.id >= kFirstOfSequence && reading.id <= kLastOfSequence;
            (local ? sequence.clocks : m_clocks)[reading.id] = reading.clock;
        }
    }

    /// None: beyond what 64 bits count.
    static std::optional<std::int64_t> nanoseconds(const Clock &clock, std::int64_t value)
    {
        std::int64_t time = 0;
        if (__builtin_mul_overflow(value, clock.unit, &time) || __builtin_add_overflow(time, clock.toTrace, &time)
            || time > kMostTime || time < -kMostTime)
            return std::nullopt;
        return time;
    }

    std::optional<std::int64_t> timeOf(PacketSequence &sequence, std::optional<std::uint64_t> time, std::uint32_t id)
    {
        if (!time || *time > static_cast<std::uint64_t>(kMostTime))
            return std::nullopt;
        auto value = static_cast<std::int64_t>(*time);
        for (auto *clocks : {&sequence.clocks, &m_clocks}) {
            const auto found = clocks->find(id);
            if (found == clocks->end())
                continue;
            Clock &clock = found->second;
            if (clock.incremental) {
                if (__builtin_add_overflow(clock.last, value, &value))
                    return std::nullopt;
                clock.last = value;
            }
            return nanoseconds(clock, value);
        }
        return value;
    }

    void readTrack(std::string_view bytes)
    {
        WireMessage message(bytes);
        std::uint64_t id = 0;
        std::optional<std::uint64_t> parent;
        std::string_view name, process, thread;
        std::optional<std::string_view> counter;
        for (WireField field; message.next(field);) {
            switch (field.number) {
            case 1: id = field.value; break;
            case 2:
            case 10: name = field.bytes; break;
            case 3: process = field.bytes; break;
            case 4: thread = field.bytes; break;
            case 5: parent = field.value; break;
            case 8: counter = field.bytes; break;
            default: break;
            }
        }
        Track track;
        if (thread.data())
            track = threadTrack(thread, name);
        else if (process.data())
            track = processTrack(process, name);
        else
            track = ownTrack(id, parent, name);
        if (counter)
            describeCounter(*counter, name.empty() ? std::string_view(track.thread) : name, track);
        m_tracks[id] = std::move(track);
    }

    static void describeCounter(std::string_view bytes, std::string_view name, Track &track)
    {
        track.counter = name;
        WireMessage message(bytes);
        for (WireField field; message.next(field);) {
            if (field.number == 4)
                track.unit = static_cast<double>(static_cast<std::int64_t>(field.value));
            else if (field.number == 5)
                track.adds = field.value != 0;
            else if (field.number == 6 && !field.bytes.empty())
                track.counter += fmt::format(" ({})", field.bytes);
        }
    }

    Track threadTrack(std::string_view bytes, std::string_view name)
    {
        std::int64_t process = 0, number = 0;
        WireMessage message(bytes);
        for (WireField field; message.next(field);) {
            if (field.number == 1)
                process = static_cast<std::int32_t>(field.value);
            else if (field.number == 2)
                number = static_cast<std::int64_t>(field.value);
            else if (field.number == 5)
                name = field.bytes;
        }
        Track track{std::to_string(process), std::to_string(number)};
        if (!name.empty())
            m_slices.nameThread(track.process, track.thread, name);
        return track;
    }

    Track processTrack(std::string_view bytes, std::string_view name)
    {
        std::int64_t process = 0;
        WireMessage message(bytes);
        for (WireField field; message.next(field);) {
            if (field.number == 1)
                process = static_cast<std::int32_t>(field.value);
            else if (field.number == 6)
                name = field.bytes;
        }
        Track track{std::to_string(process), "process"};
        m_slices.nameProcess(track.process,
                             name.empty() ? fmt::format("process {}", process) : fmt::format("{} {}", name, process));
        m_slices.nameThread(track.process, track.thread, "process");
        return track;
    }

    Track ownTrack(std::uint64_t id, std::optional<std::uint64_t> parent, std::string_view name)
    {
        const auto above = parent ? m_tracks.find(*parent) : m_tracks.end();
        Track track{above == m_tracks.end() ? "tracks" : above->second.process, fmt::format("track {:x}", id)};
        if (above == m_tracks.end())
            m_slices.nameProcess(track.process, "tracks");
        m_slices.nameThread(track.process, track.thread, name.empty() ? std::string_view(track.thread) : name);
        return track;
    }

    [[nodiscard]] static TrackEvent parse(std::string_view bytes, const PacketSequence &sequence)
    {
        const auto interned = [](const auto &table, std::uint64_t id) {
            const auto found = table.find(id);
            return found == table.end() ? std::string_view("?") : std::string_view(found->second);
        };
        TrackEvent event;
        WireMessage message(bytes);
        for (WireField field; message.next(field);) {
            switch (field.number) {
            case 1:
            case 16: event.olderTimes = true; break;
            case 3:
                if (event.category.empty() && !field.bytes.data())
                    event.category = interned(sequence.categories, field.value);
                break;
            case 4: parseAnnotation(field.bytes, event); break;
            case 6: parseOlder(field.bytes, event); break;
            case 9: event.type = field.value; break;
            case 10: event.name = interned(sequence.names, field.value); break;
            case 11: event.track = field.value; break;
            case 22: event.category = field.bytes; break;
            case 23: event.name = field.bytes; break;
            case 30: event.value = static_cast<double>(static_cast<std::int64_t>(field.value)); break;
            case 44: event.value = std::bit_cast<double>(field.value); break;
            default: break;
            }
        }
        return event;
    }

    /// Those of our own export.
    static void parseAnnotation(std::string_view bytes, TrackEvent &event)
    {
        std::string_view name, text;
        std::int64_t value = -1;
        WireMessage message(bytes);
        for (WireField field; message.next(field);) {
            if (field.number == 10)
                name = field.bytes;
            else if (field.number == 3 || field.number == 4)
                value = static_cast<std::int64_t>(field.value);
            else if (field.number == 6)
                text = field.bytes;
        }
        if (name == "step")
            event.step = value;
        else if (name == "stage")
            event.stage = value;
        else if (name == "micro_batch")
            event.microBatch = value;
        else if (name == "clock" && (text == "cost" || text == "wall"))
            event.clock = text;
    }

    static void parseOlder(std::string_view bytes, TrackEvent &event)
    {
        WireMessage message(bytes);
        for (WireField field; message.next(field);) {
            if (field.number == 2)
                event.phase = static_cast<char>(field.value);
            else if (field.number == 3 && field.value < static_cast<std::uint64_t>(kMostTime) / 1000)
                event.duration = static_cast<std::int64_t>(field.value) * 1000;
        }
    }

    void addEvent(std::string_view bytes, PacketSequence &sequence, std::optional<std::uint64_t> at,
                  std::uint32_t clock)
    {
        enum Type : std::uint64_t { None, Begin, End, Instant, Counter };
        const std::optional<std::int64_t> time = timeOf(sequence, at, clock);
        TrackEvent event = parse(bytes, sequence);
        if (event.type == None && event.phase == 'B')
            event.type = Begin;
        if (event.type == None && event.phase == 'E')
            event.type = End;
        if (event.type == Instant) {
            ++m_left["instants are not shown"];
            return;
        }
        if (event.type == Counter)
            return addCounter(event.track.value_or(sequence.track), time, event.value);
        const bool complete = event.type == None && event.phase == 'X' && event.duration >= 0;
        if (!complete && event.type != Begin && event.type != End) {
            ++m_left["events of other kinds are not shown"];
            return;
        }
        if (!time || event.olderTimes)
            return drop("events have no valid times and are left out");
        const Track &track = trackOf(event.track.value_or(sequence.track));
        Slice slice;
        slice.process = track.process;
        slice.thread = track.thread;
        slice.name = event.name.empty() ? std::string_view("(without a name)") : event.name;
        slice.category = event.category;
        slice.start = *time;
        slice.duration = std::max<std::int64_t>(event.duration, 0);
        if (!event.clock.empty())
            m_slices.setClock(std::string(event.clock));
        slice.step = event.step;
        slice.stage = event.stage;
        slice.microBatch = event.microBatch;
        if (complete ? !m_slices.add(slice) : event.type == End && !m_slices.end(track.process, track.thread, *time))
            drop(complete ? "slices have no valid times and are left out" : "ends of slices have no beginning");
        else if (event.type == Begin)
            m_slices.begin(slice);
    }

    void addCounter(std::uint64_t id, std::optional<std::int64_t> time, std::optional<double> value)
    {
        const auto found = m_tracks.find(id);
        if (found == m_tracks.end() || found->second.counter.empty() || !time || !value) {
            ++m_left["counter values are not shown: their track is not described"];
            return;
        }
        Track &track = found->second;
        track.sum = (track.adds ? track.sum : 0) + *value * track.unit;
        m_slices.count(track.process, track.counter, *time, track.sum);
    }

    const Track &trackOf(std::uint64_t id)
    {
        const auto found = m_tracks.find(id);
        return found != m_tracks.end() ? found->second : m_tracks[id] = ownTrack(id, std::nullopt, {});
    }

    void drop(const char *why)
    {
        ++m_dropped;
        ++m_left[why];
    }

    Progress &m_progress;
    SliceCollector m_slices;
    std::unordered_map<std::uint64_t, PacketSequence> m_sequences;
    std::unordered_map<std::uint64_t, Track> m_tracks;
    std::map<std::uint32_t, Clock> m_clocks;
    std::map<std::string_view, std::int64_t> m_left; ///< what is not shown, and how much of it
    std::uintmax_t m_bytes = 0;
    std::int64_t m_dropped = 0;
    bool m_cut = false;
    std::vector<std::string> m_notes;
};

} // namespace

Result<ForeignTrace> readPerfettoTrace(const std::string &path, Progress &progress)
{
    PerfettoReader reader(progress);
    if (const Status done = reader.readFile(path); !done)
        return done.error().in(path);
    return reader.finish();
}

} // namespace planloom::import
