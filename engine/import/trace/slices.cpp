// SPDX-License-Identifier: Apache-2.0
#include "engine/import/trace/slices.h"

#include "engine/import/trace/foreign_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace planloom::import {

namespace {

constexpr std::int64_t kMostStart = std::int64_t{1} << 61;    // 73 years around 1970
constexpr std::int64_t kMostDuration = std::int64_t{1} << 60; // so that the sums of both fit in 64 bits
constexpr std::size_t kMostNested = 64;                       // lanes of one thread

std::int32_t small(std::int64_t value)
{
    return value >= 0 && value <= std::numeric_limits<std::int32_t>::max() ? static_cast<std::int32_t>(value) : -1;
}

/// Texts with numbers, in the order in which they come.
class Names {
public:
    std::int32_t of(std::string_view text)
    {
        const auto found = m_numbers.find(text);
        if (found != m_numbers.end())
            return found->second;
        const auto number = static_cast<std::int32_t>(m_texts.size());
        m_numbers.emplace(m_texts.emplace_back(text), number);
        return number;
    }
    [[nodiscard]] const std::string &text(std::size_t number) const { return m_texts[number]; }
    [[nodiscard]] std::size_t size() const { return m_texts.size(); }

private:
    std::deque<std::string> m_texts; // views of them stay valid
    std::unordered_map<std::string_view, std::int32_t> m_numbers;
};

struct Process {
    std::string name, label;
    std::int64_t order = 0;
    std::vector<std::pair<std::int64_t, std::int32_t>> steps; ///< start, number
    std::unordered_map<std::int32_t, std::int32_t> threads;   ///< by the number of the thread's text
};

struct Thread {
    std::int32_t process = 0;
    std::string id;
    std::string name;
    std::vector<trace::Record> open;
};

struct Label {
    std::int32_t name = 0;
    trace::Kind kind = trace::Kind::Other;
    std::int32_t stage = -1, microBatch = -1;
    std::int32_t step = -1; ///< the step whose range is called so
    friend bool operator==(const Label &, const Label &) = default;
};

/// "rank 3: n0:g3" of our own export is the device n0:g3.
std::string_view withoutRank(std::string_view name)
{
    const auto colon = name.find(": ");
    return name.starts_with("rank ") && colon != std::string_view::npos ? name.substr(colon + 2) : name;
}

} // namespace

std::int32_t stepInName(std::string_view name)
{
    static constexpr std::array<std::string_view, 3> kWords{"step", "iteration", "iter"};
    const auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
    const auto isSign = [](char c) { return c == ' ' || c == '_' || c == '#' || c == ':' || c == '=' || c == '-'; };
    std::size_t digits = name.size();
    while (digits > 0 && isDigit(name[digits - 1]))
        --digits;
    std::int32_t step = -1;
    const auto read = std::from_chars(name.data() + digits, name.data() + name.size(), step);
    if (digits == name.size() || read.ec != std::errc())
        return -1;
    std::string before(name.substr(0, digits));
    while (!before.empty() && isSign(before.back()))
        before.pop_back();
    std::transform(before.begin(), before.end(), before.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    const auto word = std::find_if(kWords.begin(), kWords.end(), [&](auto w) { return before.ends_with(w); });
    if (word == kWords.end())
        return -1;
    before.resize(before.size() - word->size());
    while (!before.empty() && isSign(before.back()))
        before.pop_back();
    const bool known = before.empty() || before == "profiler" || before == "train" || before == "training";
    return known ? step : -1;
}

struct SliceCollector::Data {
    ForeignKinds kinds;
    Names processNames, threadNames, sliceNames;
    std::vector<Process> processes;
    std::vector<Thread> threads;
    std::vector<Label> labels;
    std::vector<std::vector<std::int32_t>> labelsOfName;
    std::vector<trace::Record> records; ///< rank: process, lane: thread, task: label; starts as in the file
    std::string clock = "wall";
    std::int64_t dropped = 0;

    Process &process(std::string_view key)
    {
        const auto number = static_cast<std::size_t>(processNames.of(key));
        if (number == processes.size())
            processes.emplace_back();
        return processes[number];
    }

    std::int32_t thread(std::string_view processKey, std::string_view key)
    {
        Process &owner = process(processKey);
        const auto [at, isNew] =
            owner.threads.try_emplace(threadNames.of(key), static_cast<std::int32_t>(threads.size()));
        if (isNew)
            threads.push_back({static_cast<std::int32_t>(&owner - processes.data()), std::string(key), {}, {}});
        return at->second;
    }

    std::int32_t label(const Slice &slice)
    {
        const Label wanted{sliceNames.of(slice.name), kinds.of(slice.category, slice.name), small(slice.stage),
                           small(slice.microBatch), slice.category == "kernel" ? -1 : stepInName(slice.name)};
        const auto name = static_cast<std::size_t>(wanted.name);
        if (name == labelsOfName.size())
            labelsOfName.emplace_back();
        for (const std::int32_t known : labelsOfName[name]) {
            if (labels[static_cast<std::size_t>(known)] == wanted)
                return known;
        }
        labelsOfName[name].push_back(static_cast<std::int32_t>(labels.size()));
        labels.push_back(wanted);
        return labelsOfName[name].back();
    }

    trace::Record record(const Slice &slice)
    {
        const std::int32_t lane = thread(slice.process, slice.thread);
        return {slice.start,
                slice.duration,
                label(slice),
                small(slice.step),
                threads[static_cast<std::size_t>(lane)].process,
                lane};
    }

    bool keep(const trace::Record &record)
    {
        if (record.start > kMostStart || record.start < -kMostStart || record.duration > kMostDuration
            || record.duration < 0 || records.size() >= static_cast<std::size_t>(std::numeric_limits<int>::max()))
            return false;
        noteStep(record);
        records.push_back(record);
        return true;
    }

    void noteStep(const trace::Record &record)
    {
        const std::int32_t step = labels[static_cast<std::size_t>(record.task)].step;
        if (step >= 0)
            processes[static_cast<std::size_t>(record.rank)].steps.emplace_back(record.start, step);
    }
};

SliceCollector::SliceCollector() : m_data(std::make_unique<Data>()) {}
SliceCollector::SliceCollector(SliceCollector &&) noexcept = default;
SliceCollector::~SliceCollector() = default;

bool SliceCollector::add(const Slice &slice) { return m_data->keep(m_data->record(slice)); }

void SliceCollector::begin(const Slice &slice)
{
    const trace::Record record = m_data->record(slice);
    m_data->threads[static_cast<std::size_t>(record.lane)].open.push_back(record);
}

bool SliceCollector::end(std::string_view process, std::string_view thread, std::int64_t time)
{
    auto &open = m_data->threads[static_cast<std::size_t>(m_data->thread(process, thread))].open;
    if (open.empty())
        return false;
    trace::Record record = open.back();
    open.pop_back();
    if (time < record.start || time > kMostStart || record.start < -kMostStart)
        return false;
    record.duration = time - record.start;
    return m_data->keep(record);
}

std::int64_t SliceCollector::openSlices() const
{
    return std::accumulate(m_data->threads.begin(), m_data->threads.end(), std::int64_t{0},
                           [](std::int64_t sum, const Thread &thread) {
                               return sum + static_cast<std::int64_t>(thread.open.size());
                           });
}

void SliceCollector::nameProcess(std::string_view process, std::string_view name)
{
    m_data->process(process).name = name;
}

void SliceCollector::labelProcess(std::string_view process, std::string_view label)
{
    m_data->process(process).label = label;
}

void SliceCollector::orderProcess(std::string_view process, std::int64_t order)
{
    m_data->process(process).order = order;
}

void SliceCollector::nameThread(std::string_view process, std::string_view thread, std::string_view name)
{
    m_data->threads[static_cast<std::size_t>(m_data->thread(process, thread))].name = name;
}

void SliceCollector::setClock(std::string clock) { m_data->clock = std::move(clock); }

void SliceCollector::setDropped(std::int64_t count) { m_data->dropped = count; }

namespace {

/// Steps by the ranges that the profiler marked: those of the process, or of all where it has none.
class StepRanges {
public:
    explicit StepRanges(std::vector<Process> &processes)
    {
        for (const Process &process : processes) {
            m_all.insert(m_all.end(), process.steps.begin(), process.steps.end());
            m_own.push_back(process.steps);
            std::sort(m_own.back().begin(), m_own.back().end());
        }
        std::sort(m_all.begin(), m_all.end());
    }

    [[nodiscard]] std::int32_t at(std::int32_t process, std::int64_t time) const
    {
        const auto &own = m_own[static_cast<std::size_t>(process)];
        const auto &ranges = own.empty() ? m_all : own;
        const auto behind =
            std::upper_bound(ranges.begin(), ranges.end(), std::pair(time, std::numeric_limits<std::int32_t>::max()));
        return behind == ranges.begin() ? 0 : std::prev(behind)->second;
    }

private:
    std::vector<std::pair<std::int64_t, std::int32_t>> m_all;
    std::vector<std::vector<std::pair<std::int64_t, std::int32_t>>> m_own;
};

/// Ranks by the order that the file gives its processes, else as they came. Processes without slices are left out.
std::vector<std::int32_t> rankOfProcess(const std::vector<Process> &processes,
                                        const std::vector<trace::Record> &records)
{
    std::vector<bool> used(processes.size());
    for (const trace::Record &record : records)
        used[static_cast<std::size_t>(record.rank)] = true;
    std::vector<std::size_t> order(processes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return processes[a].order < processes[b].order; });
    std::vector<std::int32_t> ranks(processes.size(), -1);
    std::int32_t next = 0;
    for (const std::size_t process : order) {
        if (used[process])
            ranks[process] = next++;
    }
    return ranks;
}

/// Gives slices of a thread that overlap lanes of their own: each takes the first that is free. @p records: of one
/// thread, by start, longer ones first. Returns the depths.
std::vector<std::uint8_t> depthsOf(std::span<const trace::Record> records)
{
    std::vector<std::uint8_t> depths;
    std::vector<std::int64_t> ends;
    for (const trace::Record &record : records) {
        const auto isFree =
            std::find_if(ends.begin(), ends.end(), [&](std::int64_t end) { return end <= record.start; });
        const auto depth = static_cast<std::size_t>(isFree - ends.begin());
        depths.push_back(static_cast<std::uint8_t>(std::min(depth, kMostNested)));
        if (depth >= kMostNested)
            continue;
        if (isFree == ends.end())
            ends.push_back(0);
        ends[depth] = record.start + record.duration;
    }
    return depths;
}

/// Fills the tables and turns processes, threads and labels of records into ranks, lanes and tasks.
class TraceBuilder {
public:
    TraceBuilder(std::vector<Process> &processes, std::vector<Thread> &threads, const std::vector<Label> &labels,
                 const Names &names, const Names &processNames, trace::Trace &trace)
        : m_processes(processes),
          m_threads(threads),
          m_labels(labels),
          m_names(names),
          m_trace(trace),
          m_ranks(rankOfProcess(processes, trace.records))
    {
        nameRanks(processNames);
        nameThreads();
    }

    void build()
    {
        auto &records = m_trace.records;
        m_origin = setSteps();
        std::sort(records.begin(), records.end(), [](const trace::Record &a, const trace::Record &b) {
            return std::tuple(a.lane, a.start, -a.duration) < std::tuple(b.lane, b.start, -b.duration);
        });
        auto kept = records.begin();
        for (auto first = records.begin(); first != records.end();) {
            const auto last = std::find_if(first, records.end(), [&](const auto &r) { return r.lane != first->lane; });
            kept = place(first, last, kept);
            first = last;
        }
        m_trace.dropped += records.end() - kept;
        records.erase(kept, records.end());
        m_trace.sort();
    }

    [[nodiscard]] std::int64_t origin() const { return m_origin; } ///< of the times, as they were added

private:
    using Iterator = std::vector<trace::Record>::iterator;

    std::int64_t setSteps()
    {
        const StepRanges ranges(m_processes);
        std::int64_t origin = std::numeric_limits<std::int64_t>::max();
        for (trace::Record &record : m_trace.records) {
            origin = std::min(origin, record.start);
            if (record.step < 0)
                record.step = ranges.at(record.rank, record.start);
        }
        for (trace::Record &record : m_trace.records)
            record.start -= origin;
        return m_trace.records.empty() ? 0 : origin;
    }

    Iterator place(Iterator first, Iterator last, Iterator kept)
    {
        const auto thread = static_cast<std::size_t>(first->lane);
        const std::vector<std::uint8_t> depths = depthsOf({&*first, static_cast<std::size_t>(last - first)});
        m_lanes.assign(kMostNested, -1);
        m_tasks.clear();
        for (auto at = first; at != last; ++at) {
            const std::size_t depth = depths[static_cast<std::size_t>(at - first)];
            if (depth >= kMostNested)
                continue;
            trace::Record record = *at;
            record.lane = laneOf(thread, depth, record.task);
            record.task = taskOf(depth, record.task);
            record.rank = m_ranks[static_cast<std::size_t>(record.rank)];
            *kept++ = record;
        }
        return kept;
    }

    /// Lanes of equal names on different ranks are one row of the table.
    std::int32_t laneOf(std::size_t thread, std::size_t depth, std::int32_t label)
    {
        std::int32_t &lane = m_lanes[depth];
        if (lane >= 0)
            return lane;
        const std::string &name = m_threads[thread].name;
        const std::string called = depth == 0 ? name : fmt::format("{} ({})", name, depth + 1);
        const trace::Work work = m_trace.kind(m_labels[static_cast<std::size_t>(label)].kind).work;
        const auto [at, isNew] = m_laneNamed.try_emplace(called, static_cast<std::int32_t>(m_trace.lanes.size()));
        if (isNew)
            m_trace.lanes.push_back({called, work, 1});
        lane = at->second;
        return lane;
    }

    std::int32_t taskOf(std::size_t depth, std::int32_t label)
    {
        const std::uint64_t key = static_cast<std::uint64_t>(label) * kMostNested + depth;
        const auto [at, isNew] = m_tasks.try_emplace(key, static_cast<std::int32_t>(m_trace.tasks.size()));
        if (isNew) {
            const Label &of = m_labels[static_cast<std::size_t>(label)];
            m_trace.tasks.push_back(
                {m_names.text(static_cast<std::size_t>(of.name)), of.kind, of.stage, of.microBatch, -1});
        }
        return at->second;
    }

    void nameRanks(const Names &processNames)
    {
        std::set<std::string> taken;
        const auto count =
            static_cast<std::size_t>(std::count_if(m_ranks.begin(), m_ranks.end(), [](int r) { return r >= 0; }));
        m_trace.ranks.resize(count);
        for (std::size_t p = 0; p < m_processes.size(); ++p) {
            const Process &process = m_processes[p];
            const std::string &key = processNames.text(p);
            std::string name(withoutRank(process.name));
            if (name.empty())
                name = "process " + key;
            if (!process.label.empty())
                name += " (" + process.label + ")";
            if (!taken.insert(name).second)
                taken.insert(name += " [" + key + "]");
            if (m_ranks[p] >= 0)
                m_trace.ranks[static_cast<std::size_t>(m_ranks[p])].device = name;
        }
    }

    void nameThreads()
    {
        std::set<std::pair<std::int32_t, std::string>> taken;
        for (Thread &thread : m_threads) {
            if (thread.name.empty())
                thread.name = "thread " + thread.id;
            if (!taken.emplace(thread.process, thread.name).second)
                thread.name += " [" + thread.id + "]";
            taken.emplace(thread.process, thread.name);
        }
    }

    std::vector<Process> &m_processes;
    std::vector<Thread> &m_threads;
    const std::vector<Label> &m_labels;
    const Names &m_names;
    trace::Trace &m_trace;
    std::vector<std::int32_t> m_ranks;                       ///< by process
    std::map<std::string, std::int32_t> m_laneNamed;         ///< of the table
    std::vector<std::int32_t> m_lanes;                       ///< of a thread, by depth
    std::unordered_map<std::uint64_t, std::int32_t> m_tasks; ///< of a thread, by label and depth
    std::int64_t m_origin = 0;
};

} // namespace

trace::Trace SliceCollector::finish(std::int64_t *origin)
{
    trace::Trace trace;
    trace.clock = m_data->clock;
    trace.dropped = m_data->dropped;
    trace.kinds = m_data->kinds.table();
    trace.records = std::move(m_data->records);
    TraceBuilder builder(m_data->processes, m_data->threads, m_data->labels, m_data->sliceNames, m_data->processNames,
                         trace);
    builder.build();
    if (origin)
        *origin = builder.origin();
    m_data = std::make_unique<Data>();
    return trace;
}

} // namespace planloom::import
