// SPDX-License-Identifier: Apache-2.0
#include "planners/dapple/search.h"

#include <algorithm>
#include <map>

namespace planloom::planners::dapple {
namespace {

/// The first layers of a plan, with the seconds of the plan whose last stage is all the rest.
struct Prefix {
    Spans spans;
    double seconds = std::numeric_limits<double>::infinity();
};

/// Forward form of the recursion: T_PL(j, m, g) for the layers before j on the devices of an occupancy.
class Recursion {
public:
    explicit Recursion(Search &search) : m_search(search), m_states(search.layers()) {}

    void run()
    {
        const Occupancy empty(*m_search.scorer.subject().cluster);
        for (std::size_t j = 1; j < m_search.layers(); ++j)
            extend(Prefix{}, empty, 0, j);
        for (std::size_t j = 1; j < m_search.layers(); ++j) {
            if (!m_search.goOn(static_cast<double>(j) / static_cast<double>(m_search.layers()), "free pipelines"))
                return;
            for (const auto &[occupancy, prefixes] : m_states[j])
                for (const Prefix &prefix : prefixes)
                    for (std::size_t next = j + 1; next < m_search.layers(); ++next)
                        extend(prefix, occupancy, j, next);
        }
    }

private:
    /// Adds layers [from, to) to @p prefix as a stage, on every number of devices and by every policy.
    void extend(const Prefix &prefix, const Occupancy &occupancy, std::size_t from, std::size_t to)
    {
        if (!m_search.allows(prefix.spans.size() + 2) || m_search.stopped)
            return;
        for (std::size_t count = 1; count < occupancy.freeCount(); ++count) {
            for (std::vector<DeviceId> &devices : m_search.choices(occupancy, count)) {
                Prefix longer = prefix;
                longer.spans.push_back({from, to, std::move(devices)});
                consider(std::move(longer), occupancy);
            }
        }
        if (!m_search.goOn(static_cast<double>(from) / static_cast<double>(m_search.layers()), "free pipelines"))
            return;
    }

    /// Evaluates the plan that ends with one stage on all the rest, and keeps the prefix if it is among the best of its
    /// state. A prefix whose last stage does not fit is kept as the worst: cut further, it may.
    void consider(Prefix prefix, const Occupancy &before)
    {
        const Span &span = prefix.spans.back();
        const Span *previous = prefix.spans.size() > 1 ? &prefix.spans[prefix.spans.size() - 2] : nullptr;
        if (!m_search.scorer.holds(span) || m_search.scorer.load(span, previous) > m_search.pool.bound())
            return;
        Occupancy after = before;
        after.take(span.devices);
        const std::size_t end = span.last;
        Spans whole = prefix.spans;
        whole.push_back({end, m_search.layers(), after.freeDevices()});
        if (auto scored = m_search.scorer.score(whole)) {
            prefix.seconds = scored->objective;
            m_search.pool.offer(*std::move(scored));
        }
        remember(m_states[end][after], std::move(prefix));
    }

    void remember(std::vector<Prefix> &kept, Prefix prefix) const
    {
        const auto precedes = [this](const Prefix &a, const Prefix &b) {
            return m_search.pool.better(a.seconds, a.spans, b.seconds, b.spans);
        };
        kept.insert(std::upper_bound(kept.begin(), kept.end(), prefix, precedes), std::move(prefix));
        if (kept.size() > m_search.settings.beam)
            kept.pop_back();
    }

    Search &m_search;
    std::vector<std::map<Occupancy, std::vector<Prefix>>> m_states; ///< by number of layers
};

} // namespace

void searchFree(Search &search) { Recursion(search).run(); }

} // namespace planloom::planners::dapple
