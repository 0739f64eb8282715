// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/auto/score.h"
#include "planners/common/kept_stages.h"

#include <vector>

namespace planloom::planners::automatic {

/// Share of a device's memory above which a stage is skipped, also for the bound: the estimate of memory is never off
/// by as much.
inline constexpr double kFarTooFull = 1.5;

/// Where stages may begin and end: beginnings of chunks of layers, and the end.
using LayerGrid = std::vector<std::size_t>;
/// Between any two of @p layers layers.
LayerGrid everyLayer(std::size_t layers);
/// Of at most @p chunks chunks that take about equally long; the first and the last layer, which differ from blocks
/// between, are chunks of their own.
LayerGrid coarseLayers(const cost::CostModel &costs, std::size_t chunks);
/// @p grid and the layers that stages of @p keep have to begin with.
LayerGrid withEdges(LayerGrid grid, const KeptStages &keep);

/// Every stage that a shape allows, scored once: chunks [first, last) on units [begin, end). Figures that depend on the
/// schedule is left out, so that one table serves all of them. Memory and time: O(chunks^2 * units^2 / 4).
class StageTable {
public:
    /// A stage without and with recomputation.
    struct Entry {
        StageTimes times;
        double recomputedWork = 0;
        Scorer::Memory memory;
        Scorer::Memory recomputedMemory;
        bool possible = false; ///< at some ZeRO level that may be chosen
        bool whole = false;    ///< at one below 3
    };

    /// @p mostZero: the highest ZeRO level that may be chosen, the shape's or one above it.
    /// Stages that @p keep does not allow are not possible.
    StageTable(Scorer &scorer, const Shape &shape, int mostZero, LayerGrid grid, const Progress &progress,
               const KeptStages &keep = {});

    [[nodiscard]] const Entry &at(std::size_t first, std::size_t last, std::size_t begin, std::size_t end) const
    {
        return m_entries[pair(begin, end, m_places) * m_chunkPairs + pair(first, last, m_chunks)];
    }
    [[nodiscard]] std::size_t chunks() const { return m_chunks; }
    /// The layer that chunk @p chunk begins with.
    [[nodiscard]] std::size_t layerAt(std::size_t chunk) const { return m_grid[chunk]; }
    [[nodiscard]] std::size_t places() const { return m_places; }
    [[nodiscard]] std::size_t bytes() const { return m_entries.size() * sizeof(Entry); }

private:
    /// Position of (a, b), a < b <= n, among all such.
    static std::size_t pair(std::size_t a, std::size_t b, std::size_t n) { return a * n - a * (a - 1) / 2 + b - a - 1; }

    LayerGrid m_grid;
    std::size_t m_chunks;
    std::size_t m_places;
    std::size_t m_chunkPairs;
    std::vector<Entry> m_entries;
};

} // namespace planloom::planners::automatic
