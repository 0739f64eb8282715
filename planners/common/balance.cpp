// SPDX-License-Identifier: Apache-2.0
#include "planners/common/balance.h"

#include <algorithm>
#include <limits>

namespace planloom::planners {

std::vector<std::size_t> balancedCuts(std::size_t items, std::size_t parts, const PartCost &cost)
{
    constexpr double kUnreached = std::numeric_limits<double>::infinity();
    // best[p][end]: smallest largest cost of parts 0..p over items [0, end); from[p][end]: where part p begins.
    std::vector<std::vector<double>> best(parts, std::vector<double>(items + 1, kUnreached));
    std::vector<std::vector<std::size_t>> from(parts, std::vector<std::size_t>(items + 1, 0));
    for (std::size_t end = 1; end + parts <= items + 1; ++end)
        best[0][end] = cost(0, 0, end);
    for (std::size_t p = 1; p < parts; ++p) {
        for (std::size_t end = p + 1; end + parts <= items + p + 1; ++end) {
            for (std::size_t begin = p; begin < end; ++begin) {
                if (best[p - 1][begin] >= best[p][end])
                    continue;
                const double largest = std::max(best[p - 1][begin], cost(p, begin, end));
                if (largest < best[p][end]) {
                    best[p][end] = largest;
                    from[p][end] = begin;
                }
            }
        }
    }
    std::vector<std::size_t> cuts(parts - 1);
    std::size_t end = items;
    for (std::size_t p = parts - 1; p > 0; --p) {
        end = from[p][end];
        cuts[p - 1] = end;
    }
    return cuts;
}

} // namespace planloom::planners
