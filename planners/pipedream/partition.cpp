// SPDX-License-Identifier: Apache-2.0
#include "planners/pipedream/partition.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace planloom::planners::pipedream {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

/// The best pipeline of a span on a number of parts: its last stage's replicas, and where the stages before it end.
struct Best {
    double seconds = kNone;
    std::int32_t before = -1; ///< last state before it; -1: one stage
    std::int32_t replicas = 1;
};

class Search {
public:
    Search(const std::vector<State> &states, const std::vector<Level> &levels, Progress &progress)
        : m_states(states),
          m_levels(levels),
          m_progress(progress),
          m_n(states.size()),
          m_before(m_n)
    {
        for (std::size_t j = 0; j < m_n; ++j) {
            for (std::size_t k = 0; k < j; ++k) {
                if (states[j].includes(states[k]))
                    m_before[j].push_back(k);
            }
        }
    }

    Partition run()
    {
        Partition result;
        m_single.assign(m_n * m_n, kNone);
        for (std::size_t i = 0; i < m_n; ++i) {
            for (std::size_t j = i; j < m_n; ++j) {
                if (spans(i, j))
                    m_single[i * m_n + j] = m_states[j].seconds - (i > 0 ? m_states[i - 1].seconds : 0);
            }
        }
        for (std::size_t level = 0; level < m_levels.size(); ++level) {
            if (!fill(level)) {
                result.complete = false;
                return result;
            }
        }
        result.seconds = m_single[m_n - 1];
        unfold(m_levels.size() - 1, 0, m_n - 1, m_levels.back().parts, {0}, result.stages);
        return result;
    }

private:
    /// True if the layers between states i - 1 and j make a span: the one before is part of the other.
    [[nodiscard]] bool spans(std::size_t i, std::size_t j) const
    {
        return i == 0 || (i - 1 < j && m_states[j].includes(m_states[i - 1]));
    }

    [[nodiscard]] double parameters(std::size_t i, std::size_t j) const
    {
        return m_states[j].parameterBytes - (i > 0 ? m_states[i - 1].parameterBytes : 0);
    }

    Best &at(std::size_t level, std::size_t i, std::size_t j, std::size_t parts)
    {
        return m_best[level][(i * m_n + j) * m_levels[level].parts + parts - 1];
    }

    bool fill(std::size_t level)
    {
        const Level &of = m_levels[level];
        m_best.emplace_back(m_n * m_n * of.parts);
        const bool last = level + 1 == m_levels.size();
        for (std::size_t i = 0; i < (last ? 1 : m_n); ++i) {
            if (m_progress.stopped())
                return false;
            m_progress.report((static_cast<double>(level) + static_cast<double>(i) / static_cast<double>(m_n))
                                  / static_cast<double>(m_levels.size()),
                              "spans");
            for (std::size_t j = i; j < m_n; ++j) {
                if (m_single[i * m_n + j] < kNone)
                    span(level, i, j);
            }
        }
        m_inside *= static_cast<double>(of.parts);
        for (std::size_t i = 0; i < (last ? 1 : m_n); ++i) {
            for (std::size_t j = i; j < m_n; ++j)
                m_single[i * m_n + j] = at(level, i, j, of.parts).seconds;
        }
        return true;
    }

    void span(std::size_t level, std::size_t i, std::size_t j)
    {
        const Level &of = m_levels[level];
        for (std::size_t m = 1; m <= of.parts; ++m) {
            const auto count = static_cast<double>(m);
            const double exchange = 4 * (count - 1) * parameters(i, j) / (of.bandwidth * count) / m_inside;
            at(level, i, j, m) = {(m_single[i * m_n + j] + exchange) / count, -1, static_cast<std::int32_t>(m)};
        }
        for (const std::size_t k : m_before[j]) {
            const double lastStage = m_single[(k + 1) * m_n + j];
            if (k < i || lastStage == kNone || m_single[i * m_n + k] == kNone)
                continue;
            for (std::size_t replicas = 1; replicas < of.parts; ++replicas)
                split(level, i, j, k, replicas, lastStage);
        }
    }

    /// States i .. k on the rest of every number of parts, the rest on @p replicas.
    void split(std::size_t level, std::size_t i, std::size_t j, std::size_t k, std::size_t replicas, double lastStage)
    {
        const Level &of = m_levels[level];
        const auto count = static_cast<double>(replicas);
        double slowest = (lastStage + 4 * (count - 1) * parameters(k + 1, j) / (of.bandwidth * count)) / count;
        slowest = std::max(slowest, 2 * m_states[k].outputBytes / (of.bandwidth * count));
        if (j + 1 < m_n)
            slowest = std::max(slowest, 2 * m_states[j].outputBytes / (of.bandwidth * count));
        for (std::size_t m = replicas + 1; m <= of.parts; ++m) {
            Best &best = at(level, i, j, m);
            if (slowest >= best.seconds)
                continue;
            const double seconds = std::max(slowest, at(level, i, k, m - replicas).seconds);
            if (seconds < best.seconds)
                best = {seconds, static_cast<std::int32_t>(k), static_cast<std::int32_t>(replicas)};
        }
    }

    /// The stages of a span on the first @p parts parts of a level, once for each of @p bases: the first devices of
    /// such runs of parts.
    void unfold(std::size_t level, std::size_t i, std::size_t j, std::size_t parts,
                const std::vector<std::size_t> &bases, std::vector<Stage> &stages)
    {
        const Best best = at(level, i, j, parts);
        const auto replicas = static_cast<std::size_t>(best.replicas);
        std::size_t first = i;
        if (best.before >= 0) {
            const auto before = static_cast<std::size_t>(best.before);
            unfold(level, i, before, parts - replicas, bases, stages);
            first = before + 1;
        }
        std::size_t size = 1;
        for (std::size_t below = 0; below < level; ++below)
            size *= m_levels[below].parts;
        std::vector<std::size_t> inside;
        for (const std::size_t base : bases) {
            for (std::size_t part = parts - replicas; part < parts; ++part)
                inside.push_back(base + part * size);
        }
        if (level == 0)
            stages.push_back({first, j, std::move(inside)});
        else
            unfold(level - 1, first, j, m_levels[level - 1].parts, inside, stages);
    }

    const std::vector<State> &m_states;
    const std::vector<Level> &m_levels;
    Progress &m_progress;
    std::size_t m_n;
    std::vector<std::vector<std::size_t>> m_before; ///< by state: the states that it includes
    std::vector<double> m_single;                   ///< by span: seconds on one part of the level at hand
    double m_inside = 1;                            ///< devices in a part of the level at hand
    std::vector<std::vector<Best>> m_best;          ///< by level, span and parts
};

} // namespace

Partition partition(const std::vector<State> &states, const std::vector<Level> &levels, Progress &progress)
{
    return Search(states, levels, progress).run();
}

} // namespace planloom::planners::pipedream
