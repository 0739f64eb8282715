// SPDX-License-Identifier: Apache-2.0
#include "planners/spp/order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace planloom::planners::spp {
namespace {

using Devices = std::vector<std::size_t>;

/// Sums of bandwidths are equal if they differ by rounding only.
constexpr double kRounding = 1e-9;

struct Split {
    double weight = std::numeric_limits<double>::infinity();
    Devices side; ///< sorted; the other side is the rest
};

/// Of two cuts of @p all devices: less weight, then more even, then the side with the lowest devices.
bool better(const Split &a, const Split &b, std::size_t all)
{
    if (a.weight < b.weight * (1 - kRounding))
        return true;
    if (a.weight > b.weight * (1 + kRounding))
        return false;
    const std::size_t evenA = std::min(a.side.size(), all - a.side.size());
    const std::size_t evenB = std::min(b.side.size(), all - b.side.size());
    return evenA != evenB ? evenA > evenB : a.side < b.side;
}

/// Stoer and Wagner's minimum cut of the complete graph on @p members: in each phase devices are added in the order of
/// their bandwidth to those already added; the last one cut off from the rest is a candidate, and is then joined with
/// the one before it.
Split minimumCut(const Bandwidths &bandwidths, const Devices &members)
{
    const std::size_t n = members.size();
    std::vector<double> weight(n * n);
    std::vector<Devices> joined(n);
    for (std::size_t a = 0; a < n; ++a) {
        joined[a] = {members[a]};
        for (std::size_t b = 0; b < n; ++b)
            weight[a * n + b] = a == b ? 0 : bandwidths.between(members[a], members[b]);
    }
    Devices left(n);
    std::iota(left.begin(), left.end(), std::size_t{0});
    Split best;
    while (left.size() > 1) {
        std::vector<double> reach(n, 0);
        Devices waiting = left;
        std::size_t before = left.front();
        std::size_t last = left.front();
        while (!waiting.empty()) {
            const auto next = std::max_element(waiting.begin(), waiting.end(),
                                               [&](std::size_t a, std::size_t b) { return reach[a] < reach[b]; });
            before = last;
            last = *next;
            waiting.erase(next);
            for (const std::size_t other : waiting)
                reach[other] += weight[last * n + other];
        }
        Split split{reach[last], joined[last]};
        std::sort(split.side.begin(), split.side.end());
        if (better(split, best, n))
            best = std::move(split);
        joined[before].insert(joined[before].end(), joined[last].begin(), joined[last].end());
        for (const std::size_t other : left) {
            weight[before * n + other] += weight[last * n + other];
            weight[other * n + before] = weight[before * n + other];
        }
        std::erase(left, last);
    }
    return best;
}

class Recursion {
public:
    explicit Recursion(const Bandwidths &bandwidths) : m_bandwidths(bandwidths) {}

    Devices order(const Devices &members, std::size_t depth)
    {
        if (members.size() < 2)
            return members;
        const Split split = minimumCut(m_bandwidths, members);
        Devices first = split.side;
        Devices second;
        std::set_difference(members.begin(), members.end(), first.begin(), first.end(), std::back_inserter(second));
        if (second.front() < first.front())
            std::swap(first, second);
        const std::size_t at = m_cuts.size();
        m_cuts.push_back({{}, first.size(), split.weight, depth});
        Devices joined = join(order(first, depth + 1), order(second, depth + 1));
        m_cuts[at].members = joined;
        return joined;
    }

    std::vector<Cut> takeCuts() { return std::move(m_cuts); }

private:
    [[nodiscard]] Devices join(Devices first, Devices second) const
    {
        double widest = -1;
        int turn = 0;
        for (int choice = 0; choice < 4; ++choice) {
            const std::size_t end = choice / 2 != 0 ? first.front() : first.back();
            const std::size_t begin = choice % 2 != 0 ? second.back() : second.front();
            const double width = m_bandwidths.between(end, begin);
            if (width > widest) {
                widest = width;
                turn = choice;
            }
        }
        if (turn / 2 != 0)
            std::reverse(first.begin(), first.end());
        if (turn % 2 != 0)
            std::reverse(second.begin(), second.end());
        first.insert(first.end(), second.begin(), second.end());
        return first;
    }

    const Bandwidths &m_bandwidths;
    std::vector<Cut> m_cuts;
};

} // namespace

DeviceOrder recursiveOrder(const Bandwidths &bandwidths)
{
    Devices all(bandwidths.devices);
    std::iota(all.begin(), all.end(), std::size_t{0});
    Recursion recursion(bandwidths);
    DeviceOrder order;
    order.devices = recursion.order(all, 0);
    order.cuts = recursion.takeCuts();
    return order;
}

} // namespace planloom::planners::spp
