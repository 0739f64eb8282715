// SPDX-License-Identifier: Apache-2.0
#include "planners/joint/stage_table.h"

namespace planloom::planners::joint {
namespace {

/// Share of a device's memory above which a stage is not looked at, nor for the bound: the estimate of memory is never off by as much.
constexpr double kFarTooFull = 1.5;

} // namespace

StageTable::StageTable(Scorer &scorer, const Shape &shape, const Progress &progress)
    : m_layers(scorer.costs().layers()), m_places(scorer.lines()[shape.line].devices.size() / scorer.lines()[shape.line].unit),
      m_layerPairs(m_layers * (m_layers + 1) / 2), m_entries(m_layerPairs * (m_places * (m_places + 1) / 2))
{
    const std::size_t unit = scorer.lines()[shape.line].unit;
    for (std::size_t begin = 0; begin < m_places; ++begin)
        for (std::size_t end = begin + 1; end <= m_places && !progress.stopped(); ++end)
            for (std::size_t first = 0; first < m_layers; ++first)
                for (std::size_t last = first + 1; last <= m_layers; ++last) {
                    Part part{first, last, begin * unit, end * unit, true};
                    const Scorer::Memory recomputed = scorer.memory(shape, part);
                    if (recomputed.fixed + recomputed.perMicroBatch > kFarTooFull)
                        continue;
                    part.recompute = false;
                    const auto times = scorer.stage(shape, part);
                    if (!times)
                        continue;
                    Entry &entry = m_entries[pair(begin, end, m_places) * m_layerPairs + pair(first, last, m_layers)];
                    entry.possible = true;
                    entry.times = *times;
                    entry.recomputedWork = times->work + static_cast<double>(shape.microBatches) * times->forward;
                    entry.memory = scorer.memory(shape, part);
                    entry.recomputedMemory = recomputed;
                }
}

} // namespace planloom::planners::joint
