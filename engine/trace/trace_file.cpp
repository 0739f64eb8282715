// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/trace.h"

#include "engine/base/files.h"
#include "engine/base/log.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <zlib.h>

// The format is resources/docs/formats/trace.md. All numbers are little-endian, and so is every machine that this runs
// on.
static_assert(std::endian::native == std::endian::little);

namespace planloom::trace {
namespace {

/// Version 1 had no tables of lanes and kinds, 16 bits for stages and ranks, and no groups; version 2 did not name the
/// plan, version 3 had no rounds.
constexpr std::string_view kMagics[] = {"PLTRACE1", "PLTRACE2", "PLTRACE3", "PLTRACE4"};
constexpr int kVersion = 4;
constexpr std::uint32_t kBlockMagic = 0x4b4c4254; // "TBLK"
constexpr std::size_t kBlockRecords = 1 << 16;
constexpr std::int64_t kFarthest = std::int64_t{1} << 61; // nanoseconds; sums of two stay in range

struct BlockHeader {
    std::uint32_t magic = kBlockMagic;
    std::uint32_t count = 0;
    std::int64_t droppedSoFar = 0;
    std::uint32_t reserved = 0;
    std::uint32_t checksum = 0; ///< CRC-32 of the fields above and the columns
};
static_assert(sizeof(BlockHeader) == 24);

std::size_t recordBytes(int version) { return version == 1 ? 28 : 30; }

/// What the numbers 0 to 4 mean in version 1.
const std::vector<LaneInfo> &lanesOfVersion1()
{
    static const std::vector<LaneInfo> lanes{{"compute", Work::Compute, 1},
                                             {"send", Work::Communication, 1},
                                             {"receive", Work::Communication, 1},
                                             {"collective", Work::Communication, 1},
                                             {"host", Work::Host, 1}};
    return lanes;
}

std::uint32_t checksumOf(std::string_view a, std::string_view b = {})
{
    uLong sum = 0;
    for (const std::string_view part : {a, b}) {
        if (!part.empty()) // for zlib a null pointer means a restart
            sum = crc32_z(sum, reinterpret_cast<const Bytef *>(part.data()), part.size());
    }
    return static_cast<std::uint32_t>(sum);
}

template <class Number>
void put(std::string &out, Number value)
{
    out.append(reinterpret_cast<const char *>(&value), sizeof value);
}

void putText(std::string &out, const std::string &text)
{
    put(out, static_cast<std::uint32_t>(text.size()));
    out += text;
}

/// Reads numbers and texts off the front of a buffer; after the first lack of bytes everything is empty and ok() is
/// false.
class Cursor {
public:
    explicit Cursor(std::string_view bytes) : m_bytes(bytes) {}
    [[nodiscard]] bool ok() const { return m_ok; }
    [[nodiscard]] std::size_t left() const { return m_bytes.size(); }

    std::string_view take(std::size_t size)
    {
        if (size > m_bytes.size()) {
            m_ok = false;
            m_bytes = {};
            return {};
        }
        const auto taken = m_bytes.substr(0, size);
        m_bytes.remove_prefix(size);
        return taken;
    }
    template <class Number>
    Number number()
    {
        Number value{};
        const auto bytes = take(sizeof value);
        if (m_ok)
            std::memcpy(&value, bytes.data(), sizeof value);
        return value;
    }
    std::string text() { return std::string(take(number<std::uint32_t>())); }

private:
    std::string_view m_bytes;
    bool m_ok = true;
};

/// A column of numbers that are as wide in the file as @p Stored.
template <class Stored, class Number>
void putColumn(std::string &out, std::span<const Record> records, Number Record::*field)
{
    for (const Record &record : records)
        put(out, static_cast<Stored>(record.*field));
}

template <class Stored, class Number>
void takeColumn(Cursor &in, std::span<Record> records, Number Record::*field)
{
    for (Record &record : records)
        record.*field = in.number<Stored>();
}

std::string encodeBlock(std::span<const Record> records, std::int64_t droppedSoFar)
{
    std::string columns;
    columns.reserve(records.size() * recordBytes(kVersion));
    putColumn<std::int64_t>(columns, records, &Record::start);
    putColumn<std::int64_t>(columns, records, &Record::duration);
    putColumn<std::int32_t>(columns, records, &Record::task);
    putColumn<std::int32_t>(columns, records, &Record::step);
    putColumn<std::int32_t>(columns, records, &Record::rank);
    putColumn<std::int16_t>(columns, records, &Record::lane);
    BlockHeader header;
    header.count = static_cast<std::uint32_t>(records.size());
    header.droppedSoFar = droppedSoFar;
    std::string block(reinterpret_cast<const char *>(&header), sizeof header - sizeof header.checksum);
    put(block, checksumOf(block, columns));
    return block + columns;
}

std::string encodeHeader(const std::string &clock, const std::string &plan, const Tables &tables)
{
    std::string body;
    const auto count = [&body](const auto &rows) { put(body, static_cast<std::uint32_t>(rows.size())); };
    putText(body, clock);
    putText(body, plan);
    put(body, tables.rounds.steps);
    put(body, tables.rounds.from);
    put(body, static_cast<std::uint8_t>(tables.rounds.overlap));
    count(tables.lanes);
    for (const LaneInfo &lane : tables.lanes) {
        putText(body, lane.name);
        put(body, static_cast<std::uint8_t>(lane.work));
        put(body, lane.capacity);
    }
    count(tables.kinds);
    for (const KindInfo &kind : tables.kinds) {
        putText(body, kind.name);
        put(body, static_cast<std::uint8_t>(kind.work));
        putText(body, kind.hue);
        putText(body, kind.texture);
        putText(body, kind.legend);
    }
    count(tables.ranks);
    for (const RankInfo &rank : tables.ranks)
        putText(body, rank.device);
    count(tables.tasks);
    for (const TaskInfo &task : tables.tasks) {
        putText(body, task.id);
        put(body, static_cast<std::uint8_t>(task.kind));
        put(body, task.stage);
        put(body, task.microBatch);
        put(body, task.group);
    }
    std::string out(kMagics[kVersion - 1]);
    put(out, static_cast<std::uint32_t>(body.size()));
    put(out, checksumOf(body));
    return out + body;
}

Work takeWork(Cursor &in)
{
    return static_cast<Work>(std::min(in.number<std::uint8_t>(), static_cast<std::uint8_t>(kLastWork)));
}

LaneInfo takeLane(Cursor &in)
{
    LaneInfo lane;
    lane.name = in.text();
    lane.work = takeWork(in);
    lane.capacity = in.number<std::int32_t>();
    return lane;
}

KindInfo takeKind(Cursor &in)
{
    KindInfo kind;
    kind.name = in.text();
    kind.work = takeWork(in);
    kind.hue = in.text();
    kind.texture = in.text();
    kind.legend = in.text();
    return kind;
}

Rounds takeRounds(Cursor &in)
{
    Rounds rounds;
    rounds.steps = in.number<std::int32_t>();
    rounds.from = in.number<std::int64_t>();
    rounds.overlap = in.number<std::uint8_t>() != 0;
    return rounds;
}

TaskInfo takeTask(Cursor &in, int version)
{
    TaskInfo task;
    task.id = in.text();
    task.kind = static_cast<Kind>(in.number<std::uint8_t>());
    task.stage = version == 1 ? in.number<std::int16_t>() : in.number<std::int32_t>();
    task.microBatch = in.number<std::int32_t>();
    task.group = version == 1 ? -1 : in.number<std::int32_t>();
    return task;
}

/// @p smallest: bytes of the shortest row, so that a damaged count reserves no more than the file can hold.
template <class Row, class Take>
Status takeRows(Cursor &in, const char *what, std::size_t smallest, std::vector<Row> &rows, const Take &take)
{
    const auto count = in.number<std::uint32_t>();
    if (count > in.left() / smallest)
        return badInput(
            fmt::format("its header promises {} {} but is too short for them; the file is damaged", count, what));
    rows.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i)
        rows.push_back(take(in));
    return {};
}

Status takeLanesAndKinds(Cursor &in, int version, Tables &tables)
{
    if (version == 1) {
        tables.lanes = lanesOfVersion1();
        tables.kinds = standardKinds();
        return {};
    }
    constexpr std::size_t kSmallestLane = 9;
    constexpr std::size_t kSmallestKind = 17;
    if (const Status lanes = takeRows(in, "lanes", kSmallestLane, tables.lanes, takeLane); !lanes)
        return lanes;
    return takeRows(in, "kinds", kSmallestKind, tables.kinds, takeKind);
}

Status decodeTables(std::string_view body, int version, Trace &trace)
{
    constexpr std::size_t kSmallestRank = 4;
    const std::size_t smallestTask = version == 1 ? 11 : 17;
    Cursor in(body);
    trace.clock = in.text();
    if (version >= 3)
        trace.plan = in.text();
    if (version >= 4)
        trace.rounds = takeRounds(in);
    if (trace.rounds.steps < 1 || trace.rounds.from < 0)
        return badInput(fmt::format("its header has rounds of {} steps from step {} on; the file is damaged",
                                    trace.rounds.steps, trace.rounds.from));
    if (const Status first = takeLanesAndKinds(in, version, trace); !first)
        return first;
    const auto takeRank = [](Cursor &from) { return RankInfo{from.text()}; };
    if (const Status ranks = takeRows(in, "ranks", kSmallestRank, trace.ranks, takeRank); !ranks)
        return ranks;
    const auto takeOne = [version](Cursor &from) { return takeTask(from, version); };
    if (const Status tasks = takeRows(in, "tasks", smallestTask, trace.tasks, takeOne); !tasks)
        return tasks;
    if (!in.ok() || in.left() != 0)
        return badInput("its header does not add up; the file is damaged");
    return {};
}

/// The file's version.
Result<int> decodeHeader(Cursor &in, Trace &trace)
{
    const auto magic = std::ranges::find(kMagics, in.take(kMagics[0].size()));
    if (magic == std::end(kMagics))
        return badInput("is not a Planloom trace; expected a .pltrace file as 'planloom train' and 'planloom simulate "
                        "--trace' write it");
    const int version = static_cast<int>(magic - std::begin(kMagics)) + 1;
    const auto size = in.number<std::uint32_t>();
    const auto checksum = in.number<std::uint32_t>();
    const auto body = in.take(size);
    if (!in.ok())
        return badInput("is cut short within its header; there is nothing to read in it");
    if (checksumOf(body) != checksum)
        return badInput("its header is damaged (checksum); there is nothing to read in it");
    if (const Status tables = decodeTables(body, version, trace); !tables)
        return tables.error();
    return version;
}

Status checkRecord(const Record &record, const Trace &trace, std::size_t at)
{
    const auto tasks = static_cast<std::int64_t>(trace.tasks.size());
    const auto ranks = static_cast<std::int64_t>(trace.ranks.size());
    const auto lanes = static_cast<std::int64_t>(trace.lanes.size());
    if (record.task < -1 || record.task >= tasks)
        return badInput(fmt::format("record {} names task {} of {}; the file is damaged", at, record.task, tasks));
    if (record.rank < 0 || record.rank >= ranks || record.lane < 0 || record.lane >= lanes)
        return badInput(fmt::format("record {} names rank {} of {} and lane {} of {}; the file is damaged", at,
                                    record.rank, ranks, record.lane, lanes));
    if (record.duration < 0 || record.duration > kFarthest || record.start < -kFarthest || record.start > kFarthest)
        return badInput(fmt::format("record {} starts at {} ns and lasts {} ns; the file is damaged", at, record.start,
                                    record.duration));
    return {};
}

/// The columns of the next block, or nothing where the file ends in the midst of it or was torn there by a crash.
std::optional<std::string_view> nextBlock(Cursor &in, int version, BlockHeader &header)
{
    if (in.left() < sizeof header)
        return std::nullopt;
    const std::string_view head = in.take(sizeof header);
    std::memcpy(&header, head.data(), sizeof header);
    const std::size_t size = header.count * recordBytes(version);
    if (header.magic != kBlockMagic || size > in.left())
        return std::nullopt;
    const std::string_view columns = in.take(size);
    if (checksumOf(head.substr(0, sizeof header - sizeof header.checksum), columns) != header.checksum)
        return std::nullopt;
    return columns;
}

Status decodeBlock(std::string_view columns, int version, const BlockHeader &header, Trace &trace)
{
    const std::size_t first = trace.records.size();
    trace.records.resize(first + header.count);
    const auto records = std::span(trace.records).subspan(first);
    Cursor in(columns);
    takeColumn<std::int64_t>(in, records, &Record::start);
    takeColumn<std::int64_t>(in, records, &Record::duration);
    takeColumn<std::int32_t>(in, records, &Record::task);
    takeColumn<std::int32_t>(in, records, &Record::step);
    if (version == 1)
        takeColumn<std::int16_t>(in, records, &Record::rank);
    else
        takeColumn<std::int32_t>(in, records, &Record::rank);
    takeColumn<std::int16_t>(in, records, &Record::lane);
    trace.dropped = header.droppedSoFar;
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (const Status good = checkRecord(records[i], trace, first + i); !good)
            return good;
    }
    return {};
}

Result<Trace> decode(std::string_view bytes, const std::string &path)
{
    Trace trace;
    Cursor in(bytes);
    const auto version = decodeHeader(in, trace);
    if (!version)
        return version.error().in(path);
    while (in.left() > 0) {
        const std::size_t at = bytes.size() - in.left();
        BlockHeader header;
        const auto columns = nextBlock(in, *version, header);
        if (!columns) {
            log(LogLevel::Warning,
                fmt::format("{}: ends within a block (byte {}), as after a crash; everything before it was read", path,
                            at));
            break;
        }
        if (const Status good = decodeBlock(*columns, *version, header, trace); !good)
            return good.error().in(path);
    }
    trace.sort();
    return trace;
}

} // namespace

Result<Trace> readTrace(const std::string &path)
{
    const auto bytes = readFile(path);
    if (!bytes)
        return bytes.error();
    return decode(*bytes, path);
}

Status writeTrace(const Trace &trace, const std::string &path)
{
    auto file = AtomicFile::create(path);
    if (!file)
        return file.error();
    if (Status written = file->write(encodeHeader(trace.clock, trace.plan, trace)); !written)
        return written;
    const std::span<const Record> all(trace.records);
    for (std::size_t at = 0; at < all.size(); at += kBlockRecords) {
        const auto block = all.subspan(at, std::min(kBlockRecords, all.size() - at));
        if (Status written = file->write(encodeBlock(block, trace.dropped)); !written)
            return written;
    }
    if (all.empty() && trace.dropped > 0) {
        if (Status written = file->write(encodeBlock({}, trace.dropped)); !written)
            return written;
    }
    return file->commit();
}

struct TraceWriter::State {
    int file = -1;
    std::string path;
    std::int64_t length = 0;  ///< bytes up to the last whole block
    std::int64_t dropped = 0; ///< as last written

    /// All of @p bytes, or none of them.
    Status write(std::string_view bytes);
};

Status TraceWriter::State::write(std::string_view bytes)
{
    if (file < 0)
        return ioError("cannot be written: it is closed").in(path);
    std::size_t done = 0;
    while (done < bytes.size()) {
        const auto put =
            ::pwrite(file, bytes.data() + done, bytes.size() - done, length + static_cast<std::int64_t>(done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            const std::string why = systemReason();
            if (::ftruncate(file, length) != 0)
                log(LogLevel::Warning, path + ": ends within a block");
            return ioError("cannot be written: " + why + "; free some space or choose another folder").in(path);
        }
        done += static_cast<std::size_t>(put);
    }
    length += static_cast<std::int64_t>(bytes.size());
    return {};
}

TraceWriter::TraceWriter(State *state) : m_state(state) {}
TraceWriter::TraceWriter(TraceWriter &&other) noexcept : m_state(std::exchange(other.m_state, nullptr)) {}

TraceWriter &TraceWriter::operator=(TraceWriter &&other) noexcept
{
    std::swap(m_state, other.m_state);
    return *this;
}

TraceWriter::~TraceWriter()
{
    if (m_state && m_state->file >= 0)
        ::close(m_state->file);
    delete m_state;
}

Result<TraceWriter> TraceWriter::create(const std::string &path, const std::string &clock, const Tables &tables,
                                        const std::string &plan)
{
    TraceWriter writer(new State);
    State &state = *writer.m_state;
    state.path = path;
    state.file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (state.file < 0)
        return ioError(fmt::format("cannot be written: {}; check that its folder exists and can be written",
                                   systemReason()))
            .in(path);
    if (const Status written = state.write(encodeHeader(clock, plan, tables)); !written) {
        ::unlink(path.c_str());
        return written.error();
    }
    return writer;
}

Status TraceWriter::append(std::span<const Record> records, std::int64_t droppedSoFar)
{
    if (records.empty() && droppedSoFar == m_state->dropped)
        return {};
    m_state->dropped = droppedSoFar;
    std::size_t at = 0;
    do {
        const auto part = records.subspan(at, std::min(kBlockRecords, records.size() - at));
        if (const Status written = m_state->write(encodeBlock(part, droppedSoFar)); !written)
            return written;
        at += part.size();
    } while (at < records.size());
    return {};
}

Status TraceWriter::close()
{
    if (m_state->file < 0)
        return {};
    const int file = std::exchange(m_state->file, -1);
    const bool synced = ::fsync(file) == 0 || errno == EINVAL;
    const bool closed = ::close(file) == 0;
    if (!synced || !closed)
        return ioError(fmt::format("cannot be written: {}; free some space", systemReason())).in(m_state->path);
    return {};
}

} // namespace planloom::trace
