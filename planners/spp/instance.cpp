// SPDX-License-Identifier: Apache-2.0
#include "planners/spp/instance.h"

#include <algorithm>
#include <limits>
#include <memory>

namespace planloom::planners::spp {
namespace {

/// Smallest bandwidths between places of a line.
class Narrowest {
public:
    Narrowest(const Bandwidths &bandwidths, const std::vector<std::size_t> &order)
        : m_n(order.size()),
          m_inside((m_n + 1) * (m_n + 1), kInfinite),
          m_across((m_n + 1) * (m_n + 1) * (m_n + 1), kInfinite)
    {
        for (std::size_t middle = 1; middle < m_n; ++middle) {
            for (std::size_t begin = middle; begin-- > 0;) {
                double narrowest = kInfinite;
                for (std::size_t end = middle + 1; end <= m_n; ++end) {
                    narrowest = std::min(narrowest, bandwidths.between(order[begin], order[end - 1]));
                    across(begin, middle, end) =
                        std::min(begin + 1 < middle ? across(begin + 1, middle, end) : kInfinite, narrowest);
                }
            }
        }
        for (std::size_t end = 2; end <= m_n; ++end) {
            for (std::size_t begin = end - 1; begin-- > 0;)
                inside(begin, end) = std::min({inside(begin + 1, end), across(begin, begin + 1, end)});
        }
    }

    double &inside(std::size_t begin, std::size_t end) { return m_inside[begin * (m_n + 1) + end]; }
    double &across(std::size_t begin, std::size_t middle, std::size_t end)
    {
        return m_across[(begin * (m_n + 1) + middle) * (m_n + 1) + end];
    }

private:
    std::size_t m_n;
    std::vector<double> m_inside;
    std::vector<double> m_across;
};

} // namespace

void setPairwiseCommunication(Instance &instance, const Bandwidths &bandwidths, const std::vector<std::size_t> &order)
{
    const auto narrowest = std::make_shared<Narrowest>(bandwidths, order);
    instance.channel = [narrowest](std::size_t begin, std::size_t middle, std::size_t end) {
        return Line{
            0, 1 / (static_cast<double>((middle - begin) * (end - middle)) * narrowest->across(begin, middle, end))};
    };
    instance.reduction = [narrowest](std::size_t begin, std::size_t end) {
        const auto replicas = static_cast<double>(end - begin);
        return end - begin < 2 ? Line{} : Line{0, 2 * (replicas - 1) / replicas / narrowest->inside(begin, end)};
    };
}

} // namespace planloom::planners::spp
