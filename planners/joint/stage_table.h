// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/joint/score.h"

#include <vector>

namespace planloom::planners::joint {

/// Every stage that a shape allows, scored once: layers [first, last) on units [begin, end). What depends on the schedule is left out, so that one table
/// serves all of them. Memory and time: O(layers^2 * units^2 / 4).
class StageTable {
public:
    /// A stage without and with recomputation.
    struct Entry {
        StageTimes times;
        double recomputedWork = 0;
        Scorer::Memory memory;
        Scorer::Memory recomputedMemory;
        bool possible = false;
    };

    StageTable(Scorer &scorer, const Shape &shape, const Progress &progress);

    [[nodiscard]] const Entry &at(std::size_t first, std::size_t last, std::size_t begin, std::size_t end) const
    {
        return m_entries[pair(begin, end, m_places) * m_layerPairs + pair(first, last, m_layers)];
    }
    [[nodiscard]] std::size_t layers() const { return m_layers; }
    [[nodiscard]] std::size_t places() const { return m_places; }
    [[nodiscard]] std::size_t bytes() const { return m_entries.size() * sizeof(Entry); }

private:
    /// Position of (a, b), a < b <= n, among all such.
    static std::size_t pair(std::size_t a, std::size_t b, std::size_t n) { return a * n - a * (a - 1) / 2 + b - a - 1; }

    std::size_t m_layers;
    std::size_t m_places;
    std::size_t m_layerPairs;
    std::vector<Entry> m_entries;
};

} // namespace planloom::planners::joint
