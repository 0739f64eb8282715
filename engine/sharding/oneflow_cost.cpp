// SPDX-License-Identifier: Apache-2.0
#include "engine/sharding/oneflow_cost.h"
#include "engine/sharding/boxing.h"
#include "engine/sharding/signatures.h"

#include <algorithm>
#include <set>

namespace planloom::sharding::oneflow {
namespace {

using Sizes = std::vector<std::int64_t>;
/// Sizes of the pieces along each axis that a device may hold: balanced splits differ by one.
using Pieces = std::vector<std::set<std::int64_t>>;

Pieces piecesOf(const Sizes &sizes)
{
    Pieces pieces;
    for (const std::int64_t size : sizes)
        pieces.push_back({size});
    return pieces;
}

std::set<std::int64_t> &along(Pieces &pieces, const Sbp &split)
{
    return pieces[static_cast<std::size_t>(split.axis)];
}

void applySplit(Pieces &pieces, const Sbp &sbp, int parts)
{
    if (!isSplit(sbp))
        return;
    std::set<std::int64_t> smaller;
    for (const std::int64_t size : along(pieces, sbp)) {
        smaller.insert(size / parts);
        smaller.insert((size + parts - 1) / parts);
    }
    along(pieces, sbp) = std::move(smaller);
}

/// Splitting a piece into outer, then each into inner parts is splitting it into outer * inner.
bool splitsMerge(const std::set<std::int64_t> &pieces, std::int64_t outer, std::int64_t inner)
{
    const std::int64_t all = outer * inner;
    return std::all_of(pieces.begin(), pieces.end(), [all](std::int64_t size) {
        const std::int64_t rest = size % all;
        return rest == 0 || rest == 1 || rest == all - 1;
    });
}

class Reduction {
public:
    Reduction(const Sizes &sizes, const Hierarchy &hierarchy, const std::vector<NdSbp> &layouts) : m_hierarchy(hierarchy), m_layouts(layouts)
    {
        m_pieces.assign(layouts.size(), piecesOf(sizes));
        m_result.layouts.resize(layouts.size());
    }

    Reduced run()
    {
        for (std::size_t d = 0; d < m_hierarchy.size(); ++d) {
            if (m_hierarchy[d] == 1)
                continue;
            if (merges(d))
                m_result.hierarchy.back() *= m_hierarchy[d];
            else
                append(d);
        }
        if (m_result.hierarchy.empty())
            m_result = {{1}, std::vector<NdSbp>(m_layouts.size(), NdSbp{broadcast()})};
        return std::move(m_result);
    }

private:
    bool merges(std::size_t d)
    {
        if (m_result.hierarchy.empty())
            return false;
        for (std::size_t i = 0; i < m_layouts.size(); ++i) {
            const Sbp &sbp = m_layouts[i][d];
            if (sbp != m_result.layouts[i].back())
                return false;
            if (isSplit(sbp) && !splitsMerge(along(m_pieces[i], sbp), m_result.hierarchy.back(), m_hierarchy[d]))
                return false;
        }
        return true;
    }

    void append(std::size_t d)
    {
        for (std::size_t i = 0; i < m_layouts.size(); ++i) {
            if (!m_result.hierarchy.empty())
                applySplit(m_pieces[i], m_result.layouts[i].back(), m_result.hierarchy.back());
            m_result.layouts[i].push_back(m_layouts[i][d]);
        }
        m_result.hierarchy.push_back(m_hierarchy[d]);
    }

    const Hierarchy &m_hierarchy;
    const std::vector<NdSbp> &m_layouts;
    std::vector<Pieces> m_pieces; ///< per layout: before the last kept dimension
    Reduced m_result;
};

double penalty(double bytes, int producers, int consumers)
{
    return 4 * bytes * (producers + consumers);
}

double sameLine(const Sbp &from, const Sbp &to, double bytes, int parts)
{
    if (from == to)
        return 0;
    if (isPartial(to))
        return isSplit(from) ? kUnsupported : kTransfer + penalty(bytes, parts, parts);
    if (isBroadcast(from))
        return kTransfer + 1;
    return kTransfer + boxingBytes(from, to, bytes, parts);
}

double otherLine(const Sbp &from, const Sbp &to, double bytes, int producers, int consumers)
{
    if (isPartial(to) && !isBroadcast(from))
        return kUnsupported;
    double cost = kTransfer + bytes;
    if (isBroadcast(to))
        cost += (consumers - 1) * bytes;
    if (isPartial(from))
        cost += (producers - 1) * bytes;
    if (isPartial(to))
        cost += penalty(bytes, producers, consumers);
    return cost;
}

/// Two dimensions of which one changes. Along the other, every device has its own part, or the same work is done once for each.
double twoDimensions(const NdSbp &from, const NdSbp &to, double bytes, const Hierarchy &hierarchy)
{
    for (const std::size_t same : {std::size_t{0}, std::size_t{1}}) {
        const std::size_t other = 1 - same;
        if (from[same] != to[same])
            continue;
        const auto twice = [](const NdSbp &sbp) { return isSplit(sbp[0]) && isSplit(sbp[1]) && sbp[0].axis == sbp[1].axis; };
        if (other == 0 && from != to && (twice(from) || twice(to)))
            return kUnsupported; // the parts of one line do not lie together
        return sameLine(from[other], to[other], isSplit(from[same]) ? bytes : bytes * hierarchy[same], hierarchy[other]);
    }
    return kUnsupported;
}

/// A 1-d layout on the 2-d hierarchy of the other side, if that is the same layout.
bool expand(const Sizes &sizes, Reduced &flat, const Hierarchy &hierarchy)
{
    NdSbp &layout = flat.layouts[0];
    if (isSplit(layout[0]) && !splitsMerge({sizes[static_cast<std::size_t>(layout[0].axis)]}, hierarchy[0], hierarchy[1]))
        return false;
    layout.push_back(layout[0]);
    flat.hierarchy = hierarchy;
    return true;
}

int count(const Hierarchy &hierarchy)
{
    int devices = 1;
    for (const int size : hierarchy)
        devices *= size;
    return devices;
}

/// Both sides on one hierarchy where possible.
std::pair<Reduced, Reduced> reduceBoth(const Conversion &conversion)
{
    if (conversion.producers == conversion.consumers) {
        const Reduced both = reduce(conversion.sizes, conversion.producers, {conversion.from, conversion.to});
        return {{both.hierarchy, {both.layouts[0]}}, {both.hierarchy, {both.layouts[1]}}};
    }
    Reduced from = reduce(conversion.sizes, conversion.producers, {conversion.from});
    Reduced to = reduce(conversion.sizes, conversion.consumers, {conversion.to});
    if (count(from.hierarchy) == count(to.hierarchy) && from.hierarchy.size() == 1 && to.hierarchy.size() == 2)
        expand(conversion.sizes, from, to.hierarchy);
    else if (count(from.hierarchy) == count(to.hierarchy) && from.hierarchy.size() == 2 && to.hierarchy.size() == 1)
        expand(conversion.sizes, to, from.hierarchy);
    return {std::move(from), std::move(to)};
}

/// All layouts that fit the hierarchy: every split leaves at least one element to each.
std::vector<NdSbp> universe(const Sizes &sizes, const Hierarchy &hierarchy)
{
    std::vector<Sbp> components{broadcast(), partial()};
    constexpr std::size_t kMostAxes = 6;
    for (std::size_t axis = 0; axis < std::min(sizes.size(), kMostAxes); ++axis)
        components.push_back(split(static_cast<int>(axis)));
    std::vector<NdSbp> all{{}};
    for (std::size_t d = 0; d < hierarchy.size(); ++d) {
        std::vector<NdSbp> longer;
        for (const NdSbp &start : all)
            for (const Sbp &component : components) {
                longer.push_back(start);
                longer.back().push_back(component);
            }
        all = std::move(longer);
    }
    std::erase_if(all, [&](const NdSbp &layout) {
        Sizes left = sizes;
        for (std::size_t d = 0; d < layout.size(); ++d)
            if (isSplit(layout[d])) {
                std::int64_t &size = left[static_cast<std::size_t>(layout[d].axis)];
                if (size < hierarchy[d])
                    return true;
                size /= hierarchy[d];
            }
        return false;
    });
    return all;
}

} // namespace

Reduced reduce(const Sizes &sizes, const Hierarchy &hierarchy, const std::vector<NdSbp> &layouts)
{
    return Reduction(sizes, hierarchy, layouts).run();
}

double directCost(const Conversion &conversion)
{
    const auto [from, to] = reduceBoth(conversion);
    const NdSbp &have = from.layouts[0];
    const NdSbp &want = to.layouts[0];
    const bool lines = from.hierarchy.size() == 1 && to.hierarchy.size() == 1;
    if (!conversion.sameDevices || (lines && from.hierarchy != to.hierarchy))
        return lines ? otherLine(have[0], want[0], conversion.bytes, from.hierarchy[0], to.hierarchy[0]) : kUnsupported;
    if (from.hierarchy != to.hierarchy || from.hierarchy.size() > 2)
        return kUnsupported;
    if (lines)
        return sameLine(have[0], want[0], conversion.bytes, from.hierarchy[0]);
    return twoDimensions(have, want, conversion.bytes, from.hierarchy);
}

Path cheapestPath(const Conversion &conversion)
{
    constexpr int kMostMiddle = 3;
    Path best{directCost(conversion), {}};
    if (supported(best.cost))
        return best;
    const std::vector<NdSbp> layouts = universe(conversion.sizes, conversion.producers);
    // reached[i]: the cheapest way to layouts[i] with as many layouts before it as rounds have passed.
    std::vector<Path> reached(layouts.size());
    Conversion hop = conversion;
    hop.consumers = conversion.producers;
    hop.sameDevices = true;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
        hop.to = layouts[i];
        reached[i] = {directCost(hop), {layouts[i]}};
    }
    Conversion last = conversion;
    for (int middle = 1; middle <= kMostMiddle && !supported(best.cost); ++middle) {
        for (std::size_t i = 0; i < layouts.size(); ++i) {
            last.from = layouts[i];
            if (const double cost = reached[i].cost + directCost(last); supported(reached[i].cost) && cost < best.cost && supported(cost))
                best = {cost, reached[i].middle};
        }
        std::vector<Path> further(layouts.size());
        for (std::size_t i = 0; i < layouts.size(); ++i)
            for (std::size_t j = 0; j < layouts.size() && supported(reached[i].cost); ++j) {
                hop.from = layouts[i];
                hop.to = layouts[j];
                const double cost = reached[i].cost + directCost(hop);
                if (cost >= further[j].cost || !supported(cost) || i == j)
                    continue;
                further[j] = {cost, reached[i].middle};
                further[j].middle.push_back(layouts[j]);
            }
        reached = std::move(further);
    }
    return best;
}

} // namespace planloom::sharding::oneflow
