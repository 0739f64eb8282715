// SPDX-License-Identifier: Apache-2.0
#include "planners/dapple/search.h"

#include <algorithm>
#include <map>

namespace planloom::planners::dapple {
namespace {

struct Node {
    Spans spans;
    double bottleneck = std::numeric_limits<double>::infinity();
};

/// The released planner's bottleneck programme for one number of whole-pipeline replicas.
class Bottleneck {
public:
    Bottleneck(Search &search, std::size_t replicas)
        : m_search(search),
          m_replicas(replicas),
          m_width(search.devices() / replicas),
          m_states(search.layers() + 1)
    {
    }

    void run()
    {
        m_states[0].emplace(Occupancy(*m_search.scorer.subject().cluster), Node{{}, 0});
        for (std::size_t j = 0; j < m_search.layers(); ++j) {
            if (!m_search.goOn(static_cast<double>(j) / static_cast<double>(m_search.layers()), "replicated pipelines"))
                return;
            for (const auto &[occupancy, node] : m_states[j])
                extend(node, occupancy, j);
        }
        Node best;
        for (const auto &[occupancy, node] : m_states[m_search.layers()])
            if (better(node, best))
                best = node;
        if (!best.spans.empty())
            m_search.offer(best.spans);
    }

private:
    [[nodiscard]] bool better(const Node &a, const Node &b) const
    {
        return m_search.pool.better(a.bottleneck, a.spans, b.bottleneck, b.spans);
    }

    /// A whole plan has at least two stages, and uses every device that it may.
    void extend(const Node &node, const Occupancy &occupancy, std::size_t from)
    {
        const std::size_t left = m_width - (m_search.devices() - occupancy.freeCount()) / m_replicas;
        for (std::size_t count = 1; count <= left; ++count) {
            const bool isLast = count == left;
            if ((isLast && node.spans.empty()) || !m_search.allows(node.spans.size() + (isLast ? 1 : 2)))
                continue;
            for (const std::vector<DeviceId> &devices : m_search.choices(occupancy, count * m_replicas))
                for (std::size_t to = isLast ? m_search.layers() : from + 1;
                     to <= (isLast ? m_search.layers() : m_search.layers() - 1); ++to)
                    add(node, occupancy, {from, to, devices});
        }
    }

    void add(const Node &node, const Occupancy &occupancy, Span span)
    {
        Node longer;
        const Span *before = node.spans.empty() ? nullptr : &node.spans.back();
        longer.bottleneck = std::max(node.bottleneck, m_search.scorer.load(span, before));
        Occupancy after = occupancy;
        after.take(span.devices);
        Node &kept = m_states[span.last][after];
        if (longer.bottleneck > kept.bottleneck || !m_search.scorer.holds(span))
            return;
        longer.spans = node.spans;
        longer.spans.push_back(std::move(span));
        if (better(longer, kept))
            kept = std::move(longer);
    }

    Search &m_search;
    std::size_t m_replicas;
    std::size_t m_width;
    std::vector<std::map<Occupancy, Node>> m_states; ///< by number of layers
};

} // namespace

void searchReplicated(Search &search)
{
    std::vector<std::size_t> done;
    for (std::size_t width = 2; width <= search.devices(); ++width) {
        const std::size_t replicas = search.devices() / width;
        if (std::find(done.begin(), done.end(), replicas) != done.end())
            continue;
        done.push_back(replicas);
        Bottleneck(search, replicas).run();
    }
}

} // namespace planloom::planners::dapple
