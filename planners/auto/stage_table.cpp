// SPDX-License-Identifier: Apache-2.0
#include "planners/auto/stage_table.h"

#include <algorithm>
#include <numeric>

namespace planloom::planners::automatic {

LayerGrid everyLayer(std::size_t layers)
{
    LayerGrid grid(layers + 1);
    std::iota(grid.begin(), grid.end(), std::size_t{0});
    return grid;
}

LayerGrid coarseLayers(const cost::CostModel &costs, std::size_t chunks)
{
    const std::size_t layers = costs.layers().size();
    if (layers <= chunks || chunks < 3)
        return everyLayer(layers);
    const auto seconds = [&](std::size_t first, std::size_t last) {
        return (costs.forward(first, last, 1, 0) + costs.backward(first, last, 1, 0)).value();
    };
    const double each = seconds(1, layers - 1) / static_cast<double>(chunks - 2);
    LayerGrid grid{0, 1};
    for (std::size_t layer = 2; layer < layers - 1; ++layer)
        if (seconds(1, layer) >= each * static_cast<double>(grid.size() - 1))
            grid.push_back(layer);
    grid.insert(grid.end(), {layers - 1, layers});
    return grid;
}

LayerGrid withEdges(LayerGrid grid, const KeptStages &keep)
{
    const std::vector<std::size_t> edges = keep.edges(grid.back());
    grid.insert(grid.end(), edges.begin(), edges.end());
    std::sort(grid.begin(), grid.end());
    grid.erase(std::unique(grid.begin(), grid.end()), grid.end());
    return grid;
}

StageTable::StageTable(Scorer &scorer, const Shape &shape, int mostZero, LayerGrid grid, const Progress &progress,
                       const KeptStages &keep)
    : m_grid(std::move(grid)),
      m_chunks(m_grid.size() - 1),
      m_places(scorer.lines()[shape.line].devices.size() / scorer.lines()[shape.line].unit),
      m_chunkPairs(m_chunks * (m_chunks + 1) / 2),
      m_entries(m_chunkPairs * (m_places * (m_places + 1) / 2))
{
    const std::size_t unit = scorer.lines()[shape.line].unit;
    const auto mayFit = [&](const Part &part, int zero) {
        Shape smallest = shape;
        smallest.zero = zero;
        const Scorer::Memory memory = scorer.memory(smallest, part);
        return memory.fixed + memory.perMicroBatch <= kFarTooFull;
    };
    for (std::size_t begin = 0; begin < m_places; ++begin)
        for (std::size_t end = begin + 1; end <= m_places && !progress.stopped(); ++end)
            for (std::size_t first = 0; first < m_chunks; ++first)
                for (std::size_t last = first + 1; last <= m_chunks; ++last) {
                    Part part{m_grid[first], m_grid[last], begin * unit, end * unit, scorer.costs().recomputed()};
                    if (!keep.allows(part.first, part.last, part.devices()) || !mayFit(part, mostZero))
                        continue;
                    const Scorer::Memory recomputed = scorer.memory(shape, part);
                    const bool whole = mayFit(part, std::min(mostZero, 2));
                    part.recompute = plan::Recompute::None;
                    const auto times = scorer.stage(shape, part);
                    if (!times)
                        continue;
                    Entry &entry = m_entries[pair(begin, end, m_places) * m_chunkPairs + pair(first, last, m_chunks)];
                    entry.possible = true;
                    entry.whole = whole;
                    entry.times = *times;
                    entry.recomputedWork = times->work + static_cast<double>(shape.microBatches) * times->forward;
                    entry.memory = scorer.memory(shape, part);
                    entry.recomputedMemory = recomputed;
                }
}

} // namespace planloom::planners::automatic
