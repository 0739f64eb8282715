// SPDX-License-Identifier: Apache-2.0
#include "engine/sharding/boxing.h"
#include "engine/sharding/signatures.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>

namespace planloom::sharding {

double boxingBytes(const Sbp &from, const Sbp &to, double bytes, int parts)
{
    const double others = parts - 1;
    if (from == to || isBroadcast(from) || isPartial(to))
        return 0;
    if (isPartial(from))
        return (isBroadcast(to) ? 2 : 1) * others * bytes;
    if (isSplit(to) && to.axis != from.axis)
        return others / parts * bytes;
    return others * bytes;
}

double boxingBytesBetween(const Sbp &from, const Sbp &to, double bytes, int fromParts, int toParts)
{
    const double sum = isPartial(from) ? fromParts - 1 : 0;
    const double copies = isBroadcast(to) ? toParts : 1;
    return (sum + copies) * bytes;
}

namespace {

using Sizes = std::vector<std::int64_t>;

/// Layouts are numbers: for each dimension of the mesh, which of its possible components.
class Router {
public:
    Router(const Sizes &sizes, std::int64_t elementBytes, const Mesh &mesh, const NdSbp &from, const NdSbp &to)
        : m_sizes(sizes), m_mesh(mesh), m_bytes(static_cast<double>(elementBytes)), m_from(from), m_to(to)
    {
        for (const std::int64_t size : sizes)
            m_bytes *= static_cast<double>(size);
        for (std::size_t d = 0; d < mesh.sizes.size(); ++d) {
            m_choices.push_back({broadcast()});
            for (const NdSbp *end : {&from, &to})
                for (const Sbp &sbp : *end)
                    if (std::find(m_choices[d].begin(), m_choices[d].end(), sbp) == m_choices[d].end())
                        m_choices[d].push_back(sbp);
        }
    }

    Result<std::vector<BoxingStep>> route()
    {
        for (const NdSbp *end : {&m_from, &m_to})
            if (end->size() != m_mesh.sizes.size() || !possible(*end))
                return badInput("'" + toText(*end) + "' is not a sharding of this tensor on this mesh; every split must name an axis and divide it");
        using Entry = std::pair<std::pair<double, int>, NdSbp>;
        const auto later = [](const Entry &a, const Entry &b) { return a.first > b.first; };
        std::priority_queue<Entry, std::vector<Entry>, decltype(later)> open(later);
        m_best[toText(m_from)] = {{0, 0}, {}, {}};
        open.push({{0, 0}, m_from});
        while (!open.empty()) {
            const auto [cost, at] = open.top();
            open.pop();
            if (at == m_to)
                return steps();
            if (cost > m_best[toText(at)].cost)
                continue;
            for (std::size_t d = 0; d < at.size(); ++d)
                for (const Sbp &next : m_choices[d]) {
                    NdSbp made = at;
                    made[d] = next;
                    if (made == at || !movable(at, d, next) || !possible(made))
                        continue;
                    const double bytes = stepBytes(at, d, next);
                    const std::pair<double, int> reached{cost.first + bytes, cost.second + 1};
                    const auto known = m_best.find(toText(made));
                    if (known != m_best.end() && known->second.cost <= reached)
                        continue;
                    m_best[toText(made)] = {reached, at, {kindOf(at[d], next), d, made, bytes}};
                    open.push({reached, std::move(made)});
                }
        }
        return badInput("there is no way from '" + toText(m_from) + "' to '" + toText(m_to) + "'"); // not reached: everything leads to B and back
    }

private:
    struct Reached {
        std::pair<double, int> cost;
        NdSbp before;
        BoxingStep step;
    };

    /// Every split divides what the dimensions further out have left.
    [[nodiscard]] bool possible(const NdSbp &sbp) const
    {
        Sizes left = m_sizes;
        for (std::size_t d = 0; d < sbp.size(); ++d) {
            if (!isSplit(sbp[d]))
                continue;
            if (sbp[d].axis < 0 || static_cast<std::size_t>(sbp[d].axis) >= left.size())
                return false;
            std::int64_t &size = left[static_cast<std::size_t>(sbp[d].axis)];
            const Sizes segments = sbp[d].segments.empty() ? Sizes{size} : sbp[d].segments;
            if (std::accumulate(segments.begin(), segments.end(), std::int64_t{0}) != size)
                return false;
            if (std::any_of(segments.begin(), segments.end(), [&](std::int64_t segment) { return segment % m_mesh.sizes[d] != 0; }))
                return false;
            size /= m_mesh.sizes[d];
        }
        return true;
    }

    /// No dimension further in splits an axis that is touched, and segments change by way of B only.
    static bool movable(const NdSbp &at, std::size_t d, const Sbp &next)
    {
        if (isSplit(at[d]) && isSplit(next) && at[d].axis == next.axis)
            return false;
        for (std::size_t inner = d + 1; inner < at.size(); ++inner)
            for (const Sbp *touched : {&at[d], &next})
                if (isSplit(*touched) && isSplit(at[inner]) && at[inner].axis == touched->axis)
                    return false;
        return true;
    }

    /// All lines along @p d at once: the other dimensions that do not split hold as many copies.
    [[nodiscard]] double stepBytes(const NdSbp &at, std::size_t d, const Sbp &next) const
    {
        double bytes = m_bytes;
        for (std::size_t other = 0; other < at.size(); ++other)
            if (other != d && !isSplit(at[other]))
                bytes *= m_mesh.sizes[other];
        return boxingBytes(at[d], next, bytes, m_mesh.sizes[d]);
    }

    static BoxingStep::Kind kindOf(const Sbp &from, const Sbp &to)
    {
        using Kind = BoxingStep::Kind;
        if (isBroadcast(from))
            return isSplit(to) ? Kind::Slice : Kind::KeepOnFirst;
        if (isPartial(from))
            return isSplit(to) ? Kind::ReduceScatter : Kind::AllReduce;
        if (isPartial(to))
            return Kind::Pad;
        return isSplit(to) ? Kind::AllToAll : Kind::AllGather;
    }

    [[nodiscard]] std::vector<BoxingStep> steps()
    {
        std::vector<BoxingStep> found;
        for (NdSbp at = m_to; at != m_from;) {
            const Reached &reached = m_best[toText(at)];
            found.push_back(reached.step);
            at = reached.before;
        }
        std::reverse(found.begin(), found.end());
        return found;
    }

    const Sizes &m_sizes;
    const Mesh &m_mesh;
    double m_bytes;
    const NdSbp &m_from;
    const NdSbp &m_to;
    std::vector<std::vector<Sbp>> m_choices;
    std::map<std::string, Reached> m_best;
};

} // namespace

Result<std::vector<BoxingStep>> boxingRoute(const std::vector<std::int64_t> &sizes, std::int64_t elementBytes, const Mesh &mesh, const NdSbp &from, const NdSbp &to)
{
    return Router(sizes, elementBytes, mesh, from, to).route();
}

} // namespace planloom::sharding
