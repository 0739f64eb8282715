// SPDX-License-Identifier: Apache-2.0
#include "engine/import/trace/foreign_trace.h"

#include "engine/base/units.h"
#include "engine/import/trace/chrome_trace.h"
#include "engine/import/trace/nsight_trace.h"
#include "engine/import/trace/perfetto_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

namespace planloom::import {

namespace {

bool endsWith(std::string name, std::string_view suffix)
{
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return name.ends_with(suffix);
}

/// By the fields that begin such a file; the events themselves may come later than the head.
bool beginsEvents(std::string_view head)
{
    const auto contains = [&](std::string_view part) { return head.find(part) != std::string_view::npos; };
    const auto first = head.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos || contains("\"planloom."))
        return false;
    if (head[first] == '[')
        return contains("\"ph\"");
    return head[first] == '{'
        && (contains("\"deviceProperties\"") || contains("\"Record Window End\"") || contains("\"traceEvents\""));
}

constexpr std::size_t kMostKinds = 250; // a task's kind is a byte

/// The traces of several files in one: their tables are joined by name, their ranks follow one another.
class JoinedTrace {
public:
    void add(trace::Trace &from, std::int64_t shift)
    {
        const auto firstRank = static_cast<std::int32_t>(m_trace.ranks.size());
        renameCounters(from);
        m_trace.ranks.insert(m_trace.ranks.end(), from.ranks.begin(), from.ranks.end());
        const std::vector<std::int32_t> kinds =
            rowsOf(from.kinds, m_trace.kinds, m_kinds, kMostKinds, static_cast<std::int32_t>(trace::Kind::Other),
                   [](const trace::KindInfo &kind) { return kind.name; });
        const std::vector<std::int32_t> lanes =
            rowsOf(from.lanes, m_trace.lanes, m_lanes, std::numeric_limits<std::int32_t>::max(), 0,
                   [](const trace::LaneInfo &lane) { return lane.name; });
        std::vector<std::int32_t> tasks;
        tasks.reserve(from.tasks.size());
        for (trace::TaskInfo task : from.tasks) {
            const auto kind = static_cast<std::size_t>(task.kind);
            task.kind = kind < kinds.size() ? static_cast<trace::Kind>(kinds[kind]) : trace::Kind::Other;
            task.group = -1; // numbers of one file mean nothing in another
            tasks.push_back(static_cast<std::int32_t>(m_trace.tasks.size()));
            m_trace.tasks.push_back(std::move(task));
        }
        m_trace.details.append(from.details, m_trace.records.size(), from.records.size());
        for (trace::Record record : from.records) {
            record.start += shift;
            record.rank += firstRank;
            record.lane = lanes.at(static_cast<std::size_t>(record.lane));
            record.task = tasks.at(static_cast<std::size_t>(record.task));
            m_trace.records.push_back(record);
        }
        m_trace.dropped += from.dropped;
    }

    trace::Trace finish(std::string clock)
    {
        m_trace.clock = std::move(clock);
        m_trace.sort();
        return std::move(m_trace);
    }

private:
    /// Counters of another file have levels of their own.
    void renameCounters(trace::Trace &from) const
    {
        for (trace::LaneInfo &lane : from.lanes) {
            if (lane.work != trace::Work::Device || !m_lanes.contains(lane.name))
                continue;
            const std::string levels = lane.name + "/";
            lane.name += fmt::format(" [{}]", m_trace.ranks.size());
            for (trace::TaskInfo &task : from.tasks) {
                if (task.id.starts_with(levels))
                    task.id.replace(0, levels.size() - 1, lane.name);
            }
        }
    }

    /// The rows of @p to that those of @p from become; beyond @p most, row @p instead.
    template <class Row, class Name>
    static std::vector<std::int32_t> rowsOf(const std::vector<Row> &from, std::vector<Row> &to,
                                            std::map<std::string, std::int32_t> &known, std::size_t most,
                                            std::int32_t instead, Name name)
    {
        std::vector<std::int32_t> rows;
        for (const Row &row : from) {
            const auto found = known.find(name(row));
            if (found != known.end()) {
                rows.push_back(found->second);
            } else if (to.size() >= most) {
                rows.push_back(instead);
            } else {
                rows.push_back(static_cast<std::int32_t>(to.size()));
                known.emplace(name(row), rows.back());
                to.push_back(row);
            }
        }
        return rows;
    }

    trace::Trace m_trace;
    std::map<std::string, std::int32_t> m_kinds, m_lanes;
};

/// Begin of each step, by its number. Step 0 is left out where it may be what stands before the first mark.
std::map<std::int32_t, std::int64_t> stepBegins(const trace::Trace &trace)
{
    std::map<std::int32_t, std::int64_t> begins;
    for (const trace::Record &record : trace.records) {
        const auto [at, isNew] = begins.try_emplace(record.step, record.start);
        if (!isNew)
            at->second = std::min(at->second, record.start);
    }
    if (begins.size() > 1)
        begins.erase(begins.begin());
    return begins;
}

struct RankFile {
    std::string name; ///< without its folder
    ForeignTrace read;
    std::map<std::int32_t, std::int64_t> steps;
    std::int64_t shift = 0; ///< of its times, to those of the joined trace
};

/// Steps that all files have.
std::vector<std::int32_t> commonSteps(const std::vector<RankFile> &files)
{
    std::vector<std::int32_t> common;
    for (const auto &[step, begin] : files.front().steps) {
        const auto hasStep = [number = step](const RankFile &file) { return file.steps.contains(number); };
        if (std::all_of(files.begin(), files.end(), hasStep))
            common.push_back(step);
    }
    return common;
}

/// Sets the shifts; returns what to tell the user, if anything.
std::string alignClocks(std::vector<RankFile> &files, const std::vector<std::int32_t> &common)
{
    std::int64_t lastBegin = std::numeric_limits<std::int64_t>::min();
    std::int64_t firstEnd = std::numeric_limits<std::int64_t>::max();
    std::int64_t origin = firstEnd;
    for (const RankFile &file : files) {
        origin = std::min(origin, file.read.origin);
        lastBegin = std::max(lastBegin, file.read.origin);
        firstEnd = std::min(firstEnd, file.read.origin + file.read.trace.end());
    }
    if (lastBegin < firstEnd) {
        for (RankFile &file : files)
            file.shift = file.read.origin - origin;
        return {};
    }
    std::int64_t latest = 0;
    for (const RankFile &file : files)
        latest = common.empty() ? 0 : std::max(latest, file.steps.at(common.front()));
    for (RankFile &file : files)
        file.shift = common.empty() ? 0 : latest - file.steps.at(common.front());
    return common.empty()
        ? std::string("the files' times do not overlap, so that their clocks differ: each file begins at 0")
        : fmt::format("the files' times do not overlap, so that their clocks differ: step {} begins at once in all",
                      common.front());
}

/// How far apart the ranks begin their steps: by the median over steps of the latest file behind the earliest.
std::string skewNote(const std::vector<RankFile> &files, const std::vector<std::int32_t> &common)
{
    if (common.empty())
        return {};
    std::vector<std::pair<std::int64_t, std::size_t>> apart; // nanoseconds, the latest file
    for (const std::int32_t step : common) {
        std::size_t latest = 0;
        std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = std::numeric_limits<std::int64_t>::min();
        for (std::size_t i = 0; i < files.size(); ++i) {
            const std::int64_t begin = files[i].steps.at(step) + files[i].shift;
            first = std::min(first, begin);
            if (begin > last) {
                last = begin;
                latest = i;
            }
        }
        apart.emplace_back(last - first, latest);
    }
    std::sort(apart.begin(), apart.end());
    const auto &[median, of] = apart[apart.size() / 2];
    return fmt::format("the files begin a step up to {} apart (median of {} steps, then last: {})",
                       format(Seconds(static_cast<double>(median) * 1e-9)), common.size(), files[of].name);
}

/// Where files say whose rank they are, or two ranks have one name, all are called by their file, too.
void nameRanks(std::vector<RankFile> &files)
{
    std::set<std::string> names;
    std::size_t ranks = 0;
    bool areNumbered = files.size() > 1;
    for (const RankFile &file : files) {
        areNumbered = areNumbered && file.read.rank >= 0;
        ranks += file.read.trace.ranks.size();
        for (const trace::RankInfo &rank : file.read.trace.ranks)
            names.insert(rank.device);
    }
    if (names.size() == ranks && !areNumbered)
        return;
    for (RankFile &file : files) {
        const std::string own = file.read.rank >= 0 ? fmt::format("rank {}", file.read.rank) : file.name;
        for (trace::RankInfo &rank : file.read.trace.ranks)
            rank.device = fmt::format("{}: {}", own, rank.device);
    }
}

/// By the ranks that all files name differently, else as they came.
void orderByRank(std::vector<RankFile> &files)
{
    std::set<std::int32_t> ranks;
    for (const RankFile &file : files)
        ranks.insert(file.read.rank);
    if (ranks.size() == files.size() && !ranks.contains(-1))
        std::sort(files.begin(), files.end(),
                  [](const RankFile &a, const RankFile &b) { return a.read.rank < b.read.rank; });
}

/// Reports a part of the whole work.
class PartProgress final : public Progress {
public:
    PartProgress(Progress &whole, std::size_t part, std::size_t parts)
        : m_whole(whole),
          m_part(static_cast<double>(part)),
          m_parts(static_cast<double>(parts))
    {
    }
    void report(double fraction, std::string_view what) override
    {
        m_whole.report((m_part + std::clamp(fraction, 0.0, 1.0)) / m_parts, what);
    }
    [[nodiscard]] bool stopped() const override { return m_whole.stopped(); }

private:
    Progress &m_whole;
    double m_part, m_parts;
};

} // namespace

TraceFormat traceFormat(const std::string &name, std::string_view head)
{
    using namespace std::string_view_literals;
    if (head.starts_with("SQLite format 3\0"sv))
        return endsWith(name, ".planloom") ? TraceFormat::None : TraceFormat::Nsight;
    if (endsWith(name, ".nsys-rep") || endsWith(name, ".qdrep"))
        return TraceFormat::NsightReport;
    if (endsWith(name, ".perfetto-trace") || endsWith(name, ".pftrace") || endsWith(name, ".pftrace.gz")
        || endsWith(name, ".perfetto-trace.gz"))
        return TraceFormat::Perfetto;
    if (beginsEvents(head) || (endsWith(name, ".json.gz") && head.starts_with("\x1f\x8b")))
        return TraceFormat::Events;
    return TraceFormat::None;
}

TraceFormat traceFormat(const std::string &path)
{
    std::string head(4096, '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(head.data(), static_cast<std::streamsize>(head.size()));
    head.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
    return traceFormat(path, head);
}

Result<ForeignTrace> readForeignTrace(const std::string &path, Progress &progress)
{
    switch (traceFormat(path)) {
    case TraceFormat::Nsight: return readNsightTrace(path, progress);
    case TraceFormat::Perfetto: return readPerfettoTrace(path, progress);
    case TraceFormat::NsightReport:
        return badInput(fmt::format("a report of Nsight Systems is read by its own tools only; run 'nsys export --type "
                                    "sqlite {}' and open the database",
                                    path))
            .in(path);
    case TraceFormat::Events:
    case TraceFormat::None: break;
    }
    return readChromeTrace(path, progress);
}

Result<ForeignTrace> readAnyTrace(const std::string &path, Progress &progress)
{
    if (traceFormat(path) != TraceFormat::None)
        return readForeignTrace(path, progress);
    auto own = trace::readTrace(path);
    if (!own)
        return own.error();
    return ForeignTrace{*std::move(own), {}};
}

Result<ForeignTrace> readForeignTraces(const std::vector<std::string> &paths, Progress &progress)
{
    std::vector<RankFile> files;
    std::vector<std::string> notes;
    for (const std::string &path : paths) {
        PartProgress part(progress, files.size(), paths.size());
        auto read = readForeignTrace(path, part);
        if (!read)
            return read.error();
        RankFile file;
        file.name = std::filesystem::path(path).filename().string();
        for (const std::string &note : read->notes)
            notes.push_back(fmt::format("{}: {}", file.name, note));
        file.steps = stepBegins(read->trace);
        file.read = *std::move(read);
        files.push_back(std::move(file));
    }
    if (files.empty())
        return badInput("no file is named");
    orderByRank(files);
    nameRanks(files);
    const std::vector<std::int32_t> common = commonSteps(files);
    for (std::string note : {alignClocks(files, common), skewNote(files, common)}) {
        if (!note.empty())
            notes.push_back(std::move(note));
    }
    JoinedTrace joined;
    ForeignTrace made;
    made.origin = files.front().read.origin - files.front().shift;
    for (RankFile &file : files) {
        joined.add(file.read.trace, file.shift);
        file.read.trace = {}; // its records are twice in memory no longer than needed
    }
    made.trace = joined.finish("wall");
    made.notes = std::move(notes);
    return made;
}

} // namespace planloom::import
