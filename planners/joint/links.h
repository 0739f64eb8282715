// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/joint/sketch.h"

#include <array>
#include <vector>

namespace planloom::planners::joint {

/// What moving data between runs of a device line takes, from the cluster's own model. Places are units of the line. Figures are asked for once per run
/// and size class (a factor of four), and are in proportion within a class. A query costs O(1) after that.
class Links {
public:
    Links(const cost::CostModel &costs, const DeviceLine &line);

    /// Gradients of @p bytes a device, over the replicas of units [begin, end), whose devices are in groups of @p tensor.
    double allReduce(std::size_t begin, std::size_t end, int tensor, double bytes);
    /// The part of it that is due to bandwidth: the rate that the largest messages reach.
    double allReduceAtLeast(std::size_t begin, std::size_t end, int tensor, double bytes);
    /// @p bytes in all, from the units [a, b) to [b, c).
    double transfer(std::size_t a, std::size_t b, std::size_t c, double bytes);

private:
    static constexpr std::size_t kClasses = 26; ///< up to 4^26 bytes
    /// Seconds a byte by size class; negative: not asked for yet.
    using Rates = std::array<double, kClasses>;
    template <class Ask>
    static double timeOf(Rates &rates, double bytes, const Ask &ask);
    [[nodiscard]] Rates &ratesOf(std::size_t begin, std::size_t end, int tensor);

    const cost::CostModel &m_costs;
    const DeviceLine &m_line;
    std::size_t m_places;
    std::vector<std::vector<Rates>> m_reduces; ///< per power of two of `tensor`: by [begin][end]
    std::vector<Rates> m_transfers;            ///< by [a][b][c]
};

} // namespace planloom::planners::joint
