// SPDX-License-Identifier: Apache-2.0
#include "engine/compare/step_parts.h"

#include "engine/trace/waits.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace planloom::compare {
namespace {

/// A stretch of one rank's time in which a class of work goes on.
struct Edge {
    std::int64_t time = 0;
    std::int32_t work = 0; ///< class
    std::int32_t by = 0;   ///< +1: begins, -1: ends
};

/// Adds up the records of the chosen rounds.
class Adder {
public:
    explicit Adder(const trace::Trace &trace) : m_trace(trace), m_kinds(trace.kinds.size()), m_edges(trace.ranks.size())
    {
        m_busy.assign(m_kinds, 0);
        m_exclusive.assign(m_kinds + 1, 0);
        orderClasses();
    }

    void add(const std::vector<trace::Round> &rounds)
    {
        trace::Waits waits;
        waits.append(m_trace, m_trace.records);
        for (const trace::Record &record : m_trace.records)
            addRecord(record, waits.of(m_trace, record), rounds);
    }

    StepParts result(const std::vector<trace::Round> &rounds)
    {
        StepParts made;
        std::int64_t covered = 0;
        std::int64_t windows = 0;
        for (const trace::Round &round : rounds) {
            windows += round.window.end - round.window.begin - round.paused;
            made.steps += round.steps;
        }
        for (std::size_t rank = 0; rank < m_edges.size(); ++rank)
            if (computes(rank))
                covered += sweep(m_edges[rank]);
        const std::int64_t ranks = countedRanks();
        if (ranks == 0 || made.steps == 0)
            return {};
        const double share = 1.0 / static_cast<double>(ranks * made.steps);
        const auto mean = [share](std::int64_t sum) { return std::llround(static_cast<double>(sum) * share); };
        std::int64_t computing = 0;
        for (std::size_t k = 0; k < m_kinds; ++k) {
            if (isCompute(k))
                computing += m_exclusive[k];
            if (m_busy[k] > 0 || m_exclusive[k] > 0)
                made.parts.push_back({m_trace.kinds[k], mean(m_exclusive[k]), mean(m_busy[k])});
        }
        made.waiting = mean(m_exclusive[m_kinds]);
        made.idle = mean(std::max<std::int64_t>(0, windows * ranks - covered));
        made.length = std::llround(static_cast<double>(windows) / static_cast<double>(made.steps));
        made.computing = windows > 0 ? static_cast<double>(computing) / static_cast<double>(windows * ranks) : 0;
        for (const auto &[stage, seconds] : m_stages)
            made.stages[stage] = static_cast<double>(seconds) * 1e-9 / static_cast<double>(m_ranksOfStage[stage].size())
                / static_cast<double>(made.steps);
        return made;
    }

private:
    [[nodiscard]] bool isCompute(std::size_t kind) const
    {
        const trace::Work work = m_trace.kinds[kind].work;
        return work == trace::Work::Compute || work == trace::Work::Update;
    }
    /// Ranks without compute (roles, servers) do not count where others compute.
    [[nodiscard]] bool computes(std::size_t rank) const
    {
        return m_computing.empty() ? !m_edges[rank].empty() : m_computing.contains(static_cast<std::int32_t>(rank));
    }
    [[nodiscard]] std::int64_t countedRanks() const
    {
        std::int64_t count = 0;
        for (std::size_t rank = 0; rank < m_edges.size(); ++rank)
            count += computes(rank) ? 1 : 0;
        return count;
    }

    /// What counts where several go on at once comes first; waiting, the last class, does not hide anything.
    void orderClasses()
    {
        const auto place = [](trace::Work work) {
            switch (work) {
            case trace::Work::Compute: return 0;
            case trace::Work::Update: return 1;
            case trace::Work::Host: return 2;
            default: return 3;
            }
        };
        for (std::size_t k = 0; k <= m_kinds; ++k)
            m_order.push_back(static_cast<std::int32_t>(k));
        std::ranges::stable_sort(m_order, {}, [&](std::int32_t k) {
            const auto kind = static_cast<std::size_t>(k);
            return kind == m_kinds ? 4 : place(m_trace.kinds[kind].work);
        });
    }

    void addRecord(const trace::Record &record, std::int64_t waiting, const std::vector<trace::Round> &rounds)
    {
        const trace::TaskInfo *task = m_trace.task(record.task);
        const auto rank = static_cast<std::size_t>(record.rank);
        if (task == nullptr || m_trace.lane(record.lane).work == trace::Work::Device || rank >= m_edges.size())
            return;
        const auto kind = static_cast<std::size_t>(task->kind);
        if (kind >= m_kinds)
            return;
        const std::int64_t works = record.start + waiting;
        const std::int64_t end = record.start + record.duration;
        if (isCompute(kind))
            m_computing.insert(record.rank);
        const std::int64_t worked = addStretch(rank, static_cast<std::int32_t>(kind), works, end, rounds);
        addStretch(rank, static_cast<std::int32_t>(m_kinds), record.start, works, rounds);
        m_busy[kind] += worked;
        if (isCompute(kind) && task->stage >= 0 && worked > 0) {
            m_stages[task->stage] += worked;
            m_ranksOfStage[task->stage].insert(record.rank);
        }
    }

    /// The parts of [begin, end) in the rounds; returns their length.
    std::int64_t addStretch(std::size_t rank, std::int32_t work, std::int64_t begin, std::int64_t end,
                            const std::vector<trace::Round> &rounds)
    {
        std::int64_t length = 0;
        const auto behind = [](const trace::Round &round) { return round.window.end; };
        for (auto round = std::ranges::upper_bound(rounds, begin, {}, behind);
             round != rounds.end() && round->window.begin < end; ++round) {
            const std::int64_t from = std::max(begin, round->window.begin);
            const std::int64_t to = std::min(end, round->window.end);
            if (from >= to)
                continue;
            m_edges[rank].push_back({from, work, 1});
            m_edges[rank].push_back({to, work, -1});
            length += to - from;
        }
        return length;
    }

    /// Gives each instant to its first class; returns the time that any class has.
    std::int64_t sweep(std::vector<Edge> &edges)
    {
        std::ranges::sort(edges, {}, &Edge::time);
        std::vector<std::int32_t> open(m_kinds + 1, 0);
        std::int64_t covered = 0;
        for (std::size_t i = 0; i < edges.size(); ++i) {
            open[static_cast<std::size_t>(edges[i].work)] += edges[i].by;
            const std::int64_t length = i + 1 < edges.size() ? edges[i + 1].time - edges[i].time : 0;
            if (length == 0)
                continue;
            const auto first = std::ranges::find_if(m_order, [&](std::int32_t work) {
                return open[static_cast<std::size_t>(work)] > 0;
            });
            if (first == m_order.end())
                continue;
            m_exclusive[static_cast<std::size_t>(*first)] += length;
            covered += length;
        }
        return covered;
    }

    const trace::Trace &m_trace;
    std::size_t m_kinds;
    std::vector<std::vector<Edge>> m_edges; ///< per rank
    std::vector<std::int64_t> m_busy;       ///< per kind
    std::vector<std::int64_t> m_exclusive;  ///< per kind, and of waiting
    std::vector<std::int32_t> m_order;      ///< classes, the first that goes on counts
    std::set<std::int32_t> m_computing;     ///< ranks
    std::map<int, std::int64_t> m_stages;
    std::map<int, std::set<std::int32_t>> m_ranksOfStage;
};

/// The middle third by length, in the order of time, and where the median's window is.
std::vector<trace::Round> typicalRounds(std::vector<trace::Round> rounds, trace::Window &median)
{
    std::ranges::stable_sort(rounds, {}, &trace::Round::secondsPerStep);
    median = rounds[(rounds.size() - 1) / 2].window;
    const std::size_t cut = (rounds.size() - 1) / 3;
    std::vector<trace::Round> typical(rounds.begin() + static_cast<std::ptrdiff_t>(cut),
                                      rounds.end() - static_cast<std::ptrdiff_t>(cut));
    std::ranges::sort(typical, {}, [](const trace::Round &round) { return round.window.begin; });
    return typical;
}

} // namespace

StepParts stepParts(const trace::Trace &trace)
{
    const auto rounds = trace::steadyRounds(trace.rounds, trace::stepWindows(trace));
    if (rounds.empty())
        return {};
    trace::Window median;
    const auto typical = typicalRounds(rounds, median);
    Adder adder(trace);
    adder.add(typical);
    StepParts parts = adder.result(typical);
    parts.window = median;
    return parts;
}

} // namespace planloom::compare
