// SPDX-License-Identifier: Apache-2.0
#include "engine/import/trace/collected_slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <tuple>

namespace planloom::import {

namespace {

constexpr std::size_t kMostNested = 64; // lanes of one thread

/// "rank 3: n0:g3" of our own export is the device n0:g3.
std::string_view withoutRank(std::string_view name)
{
    const auto colon = name.find(": ");
    return name.starts_with("rank ") && colon != std::string_view::npos ? name.substr(colon + 2) : name;
}

/// Steps by the ranges that the profiler marked: those of the process, or of all where it has none.
class StepRanges {
public:
    explicit StepRanges(std::vector<CollectedProcess> &processes)
    {
        for (const CollectedProcess &process : processes) {
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

/// Ranks by the order that the file gives its processes, else as they came. Processes without slices and counters are
/// left out.
std::vector<std::int32_t> rankOfProcess(const std::vector<CollectedProcess> &processes,
                                        const std::vector<trace::Record> &records, const Counters &counters)
{
    std::vector<bool> used(processes.size());
    for (std::size_t process = 0; process < processes.size(); ++process)
        used[process] = counters.has(static_cast<std::int32_t>(process));
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
    TraceBuilder(CollectedSlices &slices, trace::Trace &trace)
        : m_processes(slices.processes),
          m_threads(slices.threads),
          m_labels(slices.labels),
          m_names(slices.sliceNames),
          m_extras(slices.extras),
          m_counters(slices.counters),
          m_trace(trace),
          m_ranks(rankOfProcess(slices.processes, trace.records, slices.counters))
    {
        nameRanks(slices.processNames);
        nameThreads();
    }

    void build()
    {
        auto &records = m_trace.records;
        m_origin = setSteps();
        sortRecords([](const trace::Record &r) { return std::tuple(r.lane, r.start, -r.duration); });
        std::size_t kept = 0;
        for (std::size_t first = 0; first < records.size();) {
            const auto begin = records.begin() + static_cast<std::ptrdiff_t>(first);
            const auto end = std::find_if(begin, records.end(), [&](const auto &r) { return r.lane != begin->lane; });
            const auto last = static_cast<std::size_t>(end - records.begin());
            kept = place(first, last, kept);
            first = last;
        }
        m_trace.dropped += static_cast<std::int64_t>(records.size() - kept);
        records.resize(kept);
        if (!m_extras.empty())
            m_extras.resize(kept);
        addCounters();
        sortRecords([](const trace::Record &r) { return std::tuple(r.rank, r.lane, r.start); });
    }

    [[nodiscard]] std::int64_t origin() const { return m_origin; } ///< of the times, as they were added

private:
    /// By what @p key makes of a record; those of equal keys keep their order.
    template <class Key>
    void sortRecords(Key key)
    {
        auto &records = m_trace.records;
        const auto before = [&](const trace::Record &a, const trace::Record &b) { return key(a) < key(b); };
        if (std::ranges::is_sorted(records, before))
            return;
        if (m_extras.empty()) {
            std::ranges::stable_sort(records, before);
            return;
        }
        std::vector<std::uint32_t> order(records.size());
        std::iota(order.begin(), order.end(), 0U);
        std::ranges::stable_sort(order, [&](auto a, auto b) { return before(records[a], records[b]); });
        for (std::uint32_t i = 0; i < order.size(); ++i) { // along the cycles of the order, in place
            std::uint32_t at = i;
            while (order[at] != i) {
                const std::uint32_t next = order[at];
                std::swap(records[at], records[next]);
                std::swap(m_extras[at], m_extras[next]);
                order[at] = at;
                at = next;
            }
            order[at] = at;
        }
    }

    /// Beside the slices of their process, whose times begin at m_origin by now.
    void addCounters()
    {
        if (m_counters.empty())
            return;
        const std::size_t slices = m_trace.records.size();
        std::int64_t end = std::numeric_limits<std::int64_t>::min();
        for (const trace::Record &record : m_trace.records)
            end = std::max(end, record.start + record.duration + m_origin);
        m_counters.addTo(m_trace, end);
        for (std::size_t i = slices; i < m_trace.records.size(); ++i) {
            m_trace.records[i].start -= m_origin;
            m_trace.records[i].rank = m_ranks[static_cast<std::size_t>(m_trace.records[i].rank)];
        }
        if (!m_extras.empty())
            m_extras.resize(m_trace.records.size());
    }

    std::int64_t setSteps()
    {
        const StepRanges ranges(m_processes);
        std::int64_t origin = m_counters.begin();
        for (trace::Record &record : m_trace.records) {
            origin = std::min(origin, record.start);
            if (record.step < 0)
                record.step = ranges.at(record.rank, record.start);
        }
        for (trace::Record &record : m_trace.records)
            record.start -= origin;
        return m_trace.records.empty() && m_counters.empty() ? 0 : origin;
    }

    /// Moves the records [first, last), of one thread, to @p kept and behind; returns the end of those that stay.
    std::size_t place(std::size_t first, std::size_t last, std::size_t kept)
    {
        auto &records = m_trace.records;
        const auto thread = static_cast<std::size_t>(records[first].lane);
        const std::vector<std::uint8_t> depths = depthsOf(std::span(records).subspan(first, last - first));
        m_lanes.assign(kMostNested, -1);
        m_tasks.clear();
        for (std::size_t at = first; at != last; ++at) {
            const std::size_t depth = depths[at - first];
            if (depth >= kMostNested)
                continue;
            trace::Record record = records[at];
            record.lane = laneOf(thread, depth, record.task);
            record.task = taskOf(depth, record.task);
            record.rank = m_ranks[static_cast<std::size_t>(record.rank)];
            if (!m_extras.empty())
                m_extras[kept] = m_extras[at];
            records[kept++] = record;
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
            const CollectedLabel &of = m_labels[static_cast<std::size_t>(label)];
            m_trace.tasks.push_back(
                {m_names.text(static_cast<std::size_t>(of.name)), of.kind, of.stage, of.microBatch, -1});
        }
        return at->second;
    }

    void nameRanks(const CollectedNames &processNames)
    {
        std::set<std::string> taken;
        const auto count =
            static_cast<std::size_t>(std::count_if(m_ranks.begin(), m_ranks.end(), [](int r) { return r >= 0; }));
        m_trace.ranks.resize(count);
        for (std::size_t p = 0; p < m_processes.size(); ++p) {
            const CollectedProcess &process = m_processes[p];
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
        for (CollectedThread &thread : m_threads) {
            if (thread.name.empty())
                thread.name = "thread " + thread.id;
            if (!taken.emplace(thread.process, thread.name).second)
                thread.name += " [" + thread.id + "]";
            taken.emplace(thread.process, thread.name);
        }
    }

    std::vector<CollectedProcess> &m_processes;
    std::vector<CollectedThread> &m_threads;
    const std::vector<CollectedLabel> &m_labels;
    const CollectedNames &m_names;
    std::vector<SliceExtra> &m_extras; ///< by record, or empty
    Counters &m_counters;
    trace::Trace &m_trace;
    std::vector<std::int32_t> m_ranks;                       ///< by process
    std::map<std::string, std::int32_t> m_laneNamed;         ///< of the table
    std::vector<std::int32_t> m_lanes;                       ///< of a thread, by depth
    std::unordered_map<std::uint64_t, std::int32_t> m_tasks; ///< of a thread, by label and depth
    std::int64_t m_origin = 0;
};

/// Groups of one of the numbers that slices have.
trace::Relation relationOf(const std::vector<SliceExtra> &extras, const std::vector<trace::Record> &records,
                           std::int64_t SliceExtra::*id, bool SliceExtra::*isCaller)
{
    std::vector<trace::RelationRow> rows;
    rows.reserve(extras.size());
    for (const SliceExtra &extra : extras)
        rows.push_back({extra.*id, extra.*isCaller});
    return trace::relate(rows, [&](std::size_t record) { return records[record].start; });
}

/// The columns of the trace's details.
void addDetails(CollectedSlices &slices, trace::Trace &trace)
{
    const std::vector<SliceExtra> extras = std::move(slices.extras);
    if (extras.empty())
        return;
    trace.details.launches = relationOf(extras, trace.records, &SliceExtra::correlation, &SliceExtra::isLaunch);
    trace.details.operators = relationOf(extras, trace.records, &SliceExtra::external, &SliceExtra::isOperator);
    const auto hasArguments = [](const SliceExtra &extra) { return extra.arguments != 0; };
    if (std::ranges::none_of(extras, hasArguments))
        return;
    for (std::size_t row = 0; row < slices.argumentTexts.size(); ++row)
        trace.details.arguments.push_back(slices.argumentTexts.text(row));
    trace.details.argumentOf.reserve(extras.size());
    for (const SliceExtra &extra : extras)
        trace.details.argumentOf.push_back(extra.arguments);
}

} // namespace

trace::Trace buildTrace(CollectedSlices &slices, std::int64_t &origin)
{
    trace::Trace trace;
    trace.clock = slices.clock;
    trace.dropped = slices.dropped;
    trace.kinds = slices.kinds.table();
    trace.records = std::move(slices.records);
    TraceBuilder builder(slices, trace);
    builder.build();
    origin = builder.origin();
    addDetails(slices, trace);
    return trace;
}

} // namespace planloom::import
