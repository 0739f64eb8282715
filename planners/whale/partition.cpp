// SPDX-License-Identifier: Apache-2.0
#include "planners/whale/partition.h"

#include "planners/common/balance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace planloom::planners::whale {
namespace {

constexpr double kMostSpread = 100;

double sumOf(const std::vector<double> &weights, std::size_t first, std::size_t last)
{
    return std::accumulate(weights.begin() + static_cast<std::ptrdiff_t>(first),
                           weights.begin() + static_cast<std::ptrdiff_t>(last), 0.0);
}

/// Boundaries [0, cut, cut, ..., items] of parts.
class Parts {
public:
    Parts(std::vector<std::size_t> cuts, std::size_t items) : m_bounds(std::move(cuts))
    {
        m_bounds.insert(m_bounds.begin(), 0);
        m_bounds.push_back(items);
    }
    [[nodiscard]] std::size_t size() const { return m_bounds.size() - 1; }
    [[nodiscard]] bool fits(std::size_t part, const PartFits &fits) const
    {
        return fits(part, m_bounds[part], m_bounds[part + 1]);
    }
    /// The first part from @p part on, in direction @p step, that still fits with one item more at its near end; size()
    /// if there is none.
    [[nodiscard]] std::size_t valley(std::size_t part, int step, const PartFits &fits) const
    {
        for (auto at = static_cast<std::ptrdiff_t>(part) + step; at >= 0 && at < static_cast<std::ptrdiff_t>(size());
             at += step) {
            const auto i = static_cast<std::size_t>(at);
            if (fits(i, m_bounds[i] - (step > 0 ? 1 : 0), m_bounds[i + 1] + (step > 0 ? 0 : 1)))
                return i;
        }
        return size();
    }
    /// Every part between hands one item on, so that @p from loses one and @p to gains one.
    void pass(std::size_t from, std::size_t to)
    {
        for (std::size_t b = from + 1; from < to && b <= to; ++b)
            --m_bounds[b];
        for (std::size_t b = to + 1; to < from && b <= from; ++b)
            ++m_bounds[b];
    }
    [[nodiscard]] std::size_t items(std::size_t part) const { return m_bounds[part + 1] - m_bounds[part]; }
    [[nodiscard]] std::vector<std::size_t> cuts() const { return {m_bounds.begin() + 1, m_bounds.end() - 1}; }

private:
    std::vector<std::size_t> m_bounds;
};

std::vector<std::size_t> nearestToTargets(const std::vector<double> &weights, const std::vector<double> &speeds)
{
    const double total = sumOf(weights, 0, weights.size());
    const double speed = sumOf(speeds, 0, speeds.size());
    std::vector<std::size_t> cuts;
    std::size_t at = 0;
    double done = 0;
    double target = 0;
    for (std::size_t part = 0; part + 1 < speeds.size(); ++part) {
        target += total * speeds[part] / speed;
        const std::size_t most = weights.size() - (speeds.size() - 1 - part); // an item for each part behind
        std::size_t first = at;
        while (at < most && (at == first || std::abs(done + weights[at] - target) <= std::abs(done - target)))
            done += weights[at++];
        cuts.push_back(at);
    }
    return cuts;
}

} // namespace

std::optional<std::vector<Bucket>> fillBuckets(const std::vector<double> &weights, double capacity, std::size_t most)
{
    std::vector<Bucket> buckets;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        if (buckets.empty() || buckets.back().total + weights[i] > capacity)
            buckets.push_back({i, 0});
        buckets.back().total += weights[i];
        if (buckets.size() > most)
            return std::nullopt;
    }
    return buckets;
}

std::vector<Bucket> smallestBuckets(std::vector<double> weights, std::size_t parts)
{
    const std::vector<double> given = weights;
    const auto [least, most] = std::minmax_element(weights.begin(), weights.end());
    if (*most - *least > kMostSpread) {
        const double factor = kMostSpread / *most;
        for (double &weight : weights)
            weight = std::round(weight * factor);
    }
    double capacity = std::max(1.0, std::floor(sumOf(weights, 0, weights.size()) / static_cast<double>(parts)));
    std::optional<std::vector<Bucket>> buckets = fillBuckets(weights, capacity, parts);
    while (!buckets)
        buckets = fillBuckets(weights, ++capacity, parts);
    for (std::size_t i = 0; i < buckets->size(); ++i)
        (*buckets)[i].total =
            sumOf(given, (*buckets)[i].first, i + 1 < buckets->size() ? (*buckets)[i + 1].first : given.size());
    return *std::move(buckets);
}

std::optional<std::vector<std::size_t>> walkCuts(const std::vector<double> &weights, const std::vector<double> &speeds,
                                                 const PartFits &fits)
{
    Parts parts(nearestToTargets(weights, speeds), weights.size());
    const std::size_t mostMoves = weights.size() * speeds.size();
    for (std::size_t move = 0; move <= mostMoves; ++move) {
        std::size_t peak = 0;
        while (peak < parts.size() && parts.fits(peak, fits))
            ++peak;
        if (peak == parts.size())
            return parts.cuts();
        const std::size_t right = parts.valley(peak, 1, fits);
        const std::size_t left = parts.valley(peak, -1, fits);
        const bool none = right == parts.size() && left == parts.size();
        if (none || parts.items(peak) == 1)
            return std::nullopt;
        const bool toTheRight = left == parts.size() || (right < parts.size() && right - peak <= peak - left);
        parts.pass(peak, toTheRight ? right : left);
    }
    return std::nullopt;
}

std::optional<std::vector<std::size_t>> exactCuts(const std::vector<double> &weights, const std::vector<double> &speeds,
                                                  const PartFits &fits)
{
    constexpr double kNever = std::numeric_limits<double>::infinity();
    std::vector<double> sums(weights.size() + 1, 0);
    std::partial_sum(weights.begin(), weights.end(), sums.begin() + 1);
    const PartCost cost = [&](std::size_t part, std::size_t first, std::size_t last) {
        return fits(part, first, last) ? (sums[last] - sums[first]) / speeds[part] : kNever;
    };
    std::vector<std::size_t> cuts = balancedCuts(weights.size(), speeds.size(), cost);
    for (std::size_t part = 0; part < speeds.size(); ++part) {
        const std::size_t first = part == 0 ? 0 : cuts[part - 1];
        const std::size_t last = part < cuts.size() ? cuts[part] : weights.size();
        if (first >= last || cost(part, first, last) == kNever)
            return std::nullopt;
    }
    return cuts;
}

} // namespace planloom::planners::whale
