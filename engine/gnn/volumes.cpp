// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/volumes.h"

#include "engine/gnn/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace planloom::gnn {
namespace {

/// Labelled nodes by part, or all in one list.
std::vector<std::vector<std::int64_t>> seedNodes(const GraphData &graph, bool local)
{
    std::vector<std::vector<std::int64_t>> seeds(local ? static_cast<std::size_t>(graph.parts()) : 1);
    for (std::int64_t node = 0; node < graph.nodes(); ++node) {
        const auto i = static_cast<std::size_t>(node);
        if (graph.labels[i] >= 0)
            seeds[local && !graph.part.empty() ? static_cast<std::size_t>(graph.part[i]) : 0].push_back(node);
    }
    return seeds;
}

/// True for the nodes whose features samplers hold.
std::vector<char> cachedNodes(const GraphData &graph, double share)
{
    std::vector<char> cached(static_cast<std::size_t>(graph.nodes()));
    std::vector<std::int64_t> byDegree(cached.size());
    std::iota(byDegree.begin(), byDegree.end(), std::int64_t{0});
    std::stable_sort(byDegree.begin(), byDegree.end(), [&](std::int64_t a, std::int64_t b) {
        return graph.neighbours(a).size() > graph.neighbours(b).size();
    });
    const auto count = static_cast<std::size_t>(share * static_cast<double>(cached.size()));
    for (std::size_t i = 0; i < count; ++i)
        cached[static_cast<std::size_t>(byDegree[i])] = 1;
    return cached;
}

/// Different rows of a mini-batch, and places of its trees.
struct RowCounts {
    std::vector<std::int64_t> ofPart; ///< that its store sends
    std::int64_t cached = 0;
    std::int64_t places = 0;
    [[nodiscard]] std::int64_t distinct() const { return std::accumulate(ofPart.begin(), ofPart.end(), cached); }
};

/// Rows of mini-batches, each counted once.
class RowCounter {
public:
    RowCounter(const GraphData &graph, const SampleOptions &options)
        : m_graph(graph),
          m_options(options),
          m_cached(cachedNodes(graph, options.cacheShare)),
          m_seen(static_cast<std::size_t>(graph.nodes()), -1)
    {
    }

    /// Of the mini-batch of @p sampler in iteration @p step.
    RowCounts count(const std::vector<std::int64_t> &seeds, std::int32_t step, std::int32_t sampler)
    {
        ++m_batch;
        RowCounts rows;
        rows.ofPart.resize(static_cast<std::size_t>(m_parts));
        const std::uint64_t key =
            scramble(scramble(scramble(m_options.seed) ^ static_cast<std::uint64_t>(step)) ^ kSeedDraws);
        for (std::int64_t i = 0; i < m_options.batch; ++i) {
            const std::uint64_t draw =
                scramble(key ^ (static_cast<std::uint64_t>(sampler) << 40 | static_cast<std::uint64_t>(i)));
            const std::int64_t seed = seeds[static_cast<std::size_t>(toUnit(draw) * static_cast<double>(seeds.size()))];
            m_places.clear();
            appendTree(m_graph, {m_options.fanout, m_options.whole, m_options.seed, step}, seed, m_places);
            rows.places += static_cast<std::int64_t>(m_places.size());
            for (const std::int64_t node : m_places)
                see(node, rows);
        }
        return rows;
    }

private:
    static constexpr std::uint64_t kSeedDraws = 0x5eed; ///< sets draws of seed nodes apart from those of neighbours

    void see(std::int64_t node, RowCounts &rows)
    {
        const auto i = static_cast<std::size_t>(node);
        if (std::exchange(m_seen[i], m_batch) == m_batch)
            return;
        if (m_cached[i] != 0)
            ++rows.cached;
        else
            ++rows.ofPart[m_graph.part.empty() ? 0 : static_cast<std::size_t>(m_graph.part[i])];
    }

    const GraphData &m_graph;
    const SampleOptions &m_options;
    std::int32_t m_parts = m_graph.parts();
    std::vector<char> m_cached;
    std::vector<std::int32_t> m_seen; ///< per node: the last mini-batch that it was in
    std::vector<std::int64_t> m_places;
    std::int32_t m_batch = -1;
};

Status checkSampling(const GraphData &graph, std::span<const std::int32_t> homes, std::int32_t iterations,
                     const SampleOptions &options, const std::vector<std::vector<std::int64_t>> &seeds)
{
    if (Status status = checkFanout(options.fanout); !status)
        return status;
    constexpr std::int64_t kMostBatch = std::int64_t{1} << 24;
    if (options.batch < 1 || options.batch > kMostBatch)
        return badInput(fmt::format("mini-batches of {} seed nodes; give 1 to {}", options.batch, kMostBatch));
    if (iterations < 1)
        return badInput("the job has no iterations; give at least 1");
    if (Status status = checkVolumeSize(iterations, graph.parts(), static_cast<std::int64_t>(homes.size())); !status)
        return status;
    if (!(options.cacheShare >= 0 && options.cacheShare <= 1))
        return badInput(fmt::format("a cache of {} of the nodes; give a share from 0 to 1", options.cacheShare));
    for (const std::int32_t home : homes) {
        if (home < 0 || home >= graph.parts())
            return badInput(fmt::format("part {} is the home of a sampler, and the graph has {}", home, graph.parts()));
        if (options.localSeeds && seeds[static_cast<std::size_t>(home)].empty())
            return badInput(fmt::format("part {} has no labelled nodes to draw seeds from; balance the parts, or take "
                                        "seeds from the whole graph",
                                        home));
    }
    if (!options.localSeeds && seeds.front().empty())
        return badInput("the graph has no labelled nodes to draw seeds from");
    return {};
}

} // namespace

Result<Volumes> sampledVolumes(const GraphData &graph, std::span<const std::int32_t> homes, std::int32_t iterations,
                               const SampleOptions &options)
{
    const auto seeds = seedNodes(graph, options.localSeeds);
    if (Status status = checkSampling(graph, homes, iterations, options, seeds); !status)
        return status.error();
    constexpr double kNumberBytes = 8;
    const double rowBytes = 4.0 * static_cast<double>(graph.width) + kNumberBytes;
    Volumes volumes(iterations, graph.parts(), static_cast<std::int32_t>(homes.size()));
    RowCounter counter(graph, options);
    for (std::int32_t n = 0; n < iterations; ++n) {
        for (std::int32_t s = 0; s < volumes.samplers; ++s) {
            const auto home = options.localSeeds ? static_cast<std::size_t>(homes[static_cast<std::size_t>(s)]) : 0;
            const RowCounts rows = counter.count(seeds[home], n, s);
            for (std::int32_t g = 0; g < volumes.stores; ++g)
                volumes.feature(n, g, s) = rowBytes * static_cast<double>(rows.ofPart[static_cast<std::size_t>(g)]);
            volumes.batch(n, s) = options.treeForm
                ? 4.0 * static_cast<double>(graph.width * options.batch * options.fanout.rows())
                : (rowBytes + options.bytesOfRow) * static_cast<double>(rows.distinct())
                    + options.bytesOfPlace * static_cast<double>(rows.places);
        }
    }
    return volumes;
}

} // namespace planloom::gnn
