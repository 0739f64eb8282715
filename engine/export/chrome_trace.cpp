// SPDX-License-Identifier: Apache-2.0
// The trace-event format, as its reference document gives it: metadata events ("ph": "M") name processes and threads,
// complete events ("ph": "X") are slices, times are microseconds. Written by hand: a JSON tree of millions of events
// would not fit.
#include "engine/base/files.h"
#include "engine/export/export.h"

#include <fmt/format.h>
#include <set>

namespace planloom::exporting {
namespace {

constexpr std::size_t kPieceBytes = 64 * 1024;

std::string jsonText(std::string_view text)
{
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            (out += '\\') += c;
        else if (static_cast<unsigned char>(c) < 0x20)
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        else
            out += c;
    }
    return out + '"';
}

/// Microseconds with all nanoseconds kept; a double's text would lose them after some hours.
std::string microseconds(std::int64_t nanoseconds)
{
    const bool negative = nanoseconds < 0;
    const std::uint64_t magnitude =
        negative ? 0 - static_cast<std::uint64_t>(nanoseconds) : static_cast<std::uint64_t>(nanoseconds);
    return fmt::format("{}{}.{:03}", negative ? "-" : "", magnitude / 1000, magnitude % 1000);
}

class Events {
public:
    explicit Events(const Writer &write) : m_write(write) {}

    Status add(std::string_view event)
    {
        m_piece += m_first ? "\n" : ",\n";
        m_first = false;
        m_piece += event;
        return m_piece.size() < kPieceBytes ? Status{} : flush();
    }

    Status raw(std::string_view text)
    {
        m_piece += text;
        return flush();
    }

private:
    Status flush()
    {
        Status done = m_write(m_piece);
        m_piece.clear();
        return done;
    }
    const Writer &m_write;
    std::string m_piece;
    bool m_first = true;
};

Status addNames(const trace::Trace &trace, Events &events)
{
    std::set<std::pair<std::int32_t, std::int32_t>> lanes;
    for (const auto &record : trace.records)
        lanes.emplace(record.rank, record.lane);
    for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
        const std::string name = fmt::format("rank {}: {}", rank, trace.ranks[rank].device);
        const Status done =
            events.add(fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"tid":0,"args":{{"name":{}}}}})", rank,
                                   jsonText(name)));
        if (!done)
            return done;
    }
    for (const auto &[rank, lane] : lanes) {
        constexpr const char *kEvent = R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})";
        if (auto done = events.add(fmt::format(kEvent, rank, lane, jsonText(trace.lane(lane).name))); !done)
            return done;
    }
    return {};
}

Status addSlices(const trace::Trace &trace, Events &events)
{
    // The constant part of a task is formatted once.
    std::vector<std::string> heads, arguments;
    for (const auto &task : trace.tasks) {
        heads.push_back(
            fmt::format(R"({{"name":{},"cat":{},"ph":"X")", jsonText(task.id), jsonText(trace.kind(task.kind).name)));
        arguments.push_back(fmt::format(R"("stage":{},"micro_batch":{})", task.stage, task.microBatch));
    }
    for (const auto &record : trace.records) {
        const auto task = static_cast<std::size_t>(record.task);
        const bool known = record.task >= 0 && task < trace.tasks.size();
        const Status done =
            events.add(fmt::format(R"({},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{"step":{}{}{}}}}})",
                                   known ? heads[task] : R"({"name":"?","cat":"other","ph":"X")", record.rank,
                                   record.lane, microseconds(record.start), microseconds(record.duration), record.step,
                                   known ? "," : "", known ? arguments[task] : ""));
        if (!done)
            return done;
    }
    return {};
}

} // namespace

Status chromeTrace(const trace::Trace &trace, const Writer &write)
{
    Events events(write);
    constexpr const char *kHead =
        R"({{"displayTimeUnit":"ms","otherData":{{"clock":{},"dropped":"{}"}},"traceEvents":[)";
    if (auto done = events.raw(fmt::format(kHead, jsonText(trace.clock), trace.dropped)); !done)
        return done;
    if (auto done = addNames(trace, events); !done)
        return done;
    if (auto done = addSlices(trace, events); !done)
        return done;
    return events.raw("\n]}\n");
}

std::string chromeTrace(const trace::Trace &trace)
{
    std::string whole;
    const Status never = chromeTrace(trace, [&](std::string_view piece) -> Status {
        whole += piece;
        return {};
    });
    return never ? whole : std::string();
}

Status writeChromeTrace(const trace::Trace &trace, const std::string &path)
{
    auto file = AtomicFile::create(path);
    if (!file)
        return file.error();
    if (auto done = chromeTrace(trace, [&](std::string_view piece) { return file->write(piece); }); !done)
        return done;
    return file->commit();
}

} // namespace planloom::exporting
