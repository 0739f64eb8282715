// SPDX-License-Identifier: Apache-2.0
#include "planners/dapple/latency.h"

#include <algorithm>
#include <limits>

namespace planloom::planners::dapple {
namespace {

double steadyOf(const Chain &chain, std::size_t s)
{
    return static_cast<double>(chain.microBatches - 1) * (chain.forward[s] + chain.backward[s]);
}

} // namespace

std::size_t pivotOf(const Chain &chain)
{
    std::size_t pivot = chain.forward.size() - 1;
    double between = 0; // round trip through the stages strictly between s and the pivot
    for (std::size_t s = pivot; s-- > 0;) {
        if (steadyOf(chain, s) > steadyOf(chain, pivot) + between) {
            pivot = s;
            between = 0;
        } else {
            between += chain.forward[s] + chain.backward[s];
        }
    }
    return pivot;
}

Latency formulaLatency(const Chain &chain)
{
    Latency latency;
    latency.pivot = pivotOf(chain);
    for (std::size_t s = 0; s <= latency.pivot; ++s)
        latency.warmup += chain.forward[s];
    latency.steady = steadyOf(chain, latency.pivot);
    const auto reduce = [&](std::size_t s) { return chain.allReduce.empty() ? 0.0 : chain.allReduce[s]; };
    double way = 0; // sum of B from s to the pivot
    latency.ending = -std::numeric_limits<double>::infinity();
    for (std::size_t s = latency.pivot + 1; s-- > 0;) {
        way += chain.backward[s];
        latency.ending = std::max(latency.ending, reduce(s) + way);
    }
    way = chain.backward[latency.pivot];
    for (std::size_t s = latency.pivot + 1; s < chain.forward.size(); ++s) {
        way += chain.backward[s];
        latency.ending = std::max(latency.ending, reduce(s) - way);
    }
    return latency;
}

double shippedSeconds(const ShippedInput &input)
{
    if (input.microBatches < 1)
        return std::numeric_limits<double>::infinity();
    const auto count = static_cast<double>(input.microBatches);
    double slowest = 0;
    double once = 0;
    for (const double stage : input.stage)
        slowest = std::max(slowest, stage);
    for (const double cut : input.cut) {
        slowest = std::max(slowest, 2 * cut);
        once += cut / count;
    }
    const double block = slowest / count;
    double exposed = 0;
    for (std::size_t s = 0; s < input.allReduce.size(); ++s)
        exposed = std::max(exposed, input.allReduce[s] - static_cast<double>(s) * block);
    return (count - 1) * block + input.total / (input.pipelines * count) + once + exposed;
}

double communicationRatio(const Chain &chain)
{
    double network = 0;
    double compute = 0;
    for (std::size_t s = 0; s < chain.forward.size(); ++s)
        (s % 2 == 1 ? network : compute) += chain.forward[s] + chain.backward[s];
    const std::size_t links = chain.forward.size() / 2;
    if (links == 0 || compute <= 0)
        return 0;
    return network / static_cast<double>(links) / (compute / static_cast<double>(links + 1));
}

double lowerBound(const Chain &chain)
{
    double in = 0;    // the first forward's way to this entry
    double after = 0; // from the end of this entry's last backward to the end of everything before it
    double bound = 0;
    for (std::size_t s = 0; s < chain.forward.size(); ++s) {
        const bool duplex = !chain.fullDuplex.empty() && chain.fullDuplex[s];
        const double once =
            duplex ? std::max(chain.forward[s], chain.backward[s]) : chain.forward[s] + chain.backward[s];
        const double reduce = chain.allReduce.empty() ? 0.0 : chain.allReduce[s];
        after = std::max(reduce, s > 0 ? chain.backward[s - 1] + after : 0.0);
        bound = std::max(bound, in + static_cast<double>(chain.microBatches) * once + after);
        in += chain.forward[s];
    }
    return bound;
}

void ChainClock::forwardsUpTo(const Chain &chain, std::size_t entry, std::int64_t end)
{
    for (; m_done[entry] < end; ++m_done[entry]) {
        const auto m = static_cast<std::size_t>(m_done[entry]);
        const double ready = entry == 0 ? 0.0 : m_forwardEnd[entry - 1][m];
        m_lane[entry] = std::max(m_lane[entry], ready) + chain.forward[entry];
        m_forwardEnd[entry][m] = m_lane[entry];
    }
}

void ChainClock::backward(const Chain &chain, std::size_t entry, std::int64_t microBatch)
{
    const bool last = entry + 1 == chain.forward.size();
    const double ready = last ? m_forwardEnd[entry][static_cast<std::size_t>(microBatch)] : m_gradient;
    const bool duplex = !chain.fullDuplex.empty() && chain.fullDuplex[entry];
    double &lane = duplex ? m_back[entry] : m_lane[entry];
    lane = std::max(lane, ready) + chain.backward[entry];
    m_gradient = lane;
}

double ChainClock::seconds(const Chain &chain)
{
    const std::size_t entries = chain.forward.size();
    const std::int64_t count = chain.microBatches;
    m_forwardEnd.resize(std::max(m_forwardEnd.size(), entries));
    for (std::size_t s = 0; s < entries; ++s)
        m_forwardEnd[s].resize(std::max(m_forwardEnd[s].size(), static_cast<std::size_t>(count)));
    m_done.assign(entries, 0);
    m_lane.assign(entries, 0);
    m_back.assign(entries, 0);
    for (std::int64_t m = 0; m < count; ++m) {
        // Before its m-th backward an entry has begun m + depth forwards; a full-duplex link passes on whatever has
        // come.
        std::int64_t ahead = count;
        for (std::size_t s = 0; s < entries; ++s) {
            const bool duplex = !chain.fullDuplex.empty() && chain.fullDuplex[s];
            const std::int64_t depth = chain.gpipe ? count
                : chain.depth.empty()              ? static_cast<std::int64_t>(entries - s)
                                                   : chain.depth[s];
            if (!duplex)
                ahead = std::min(ahead, m + depth);
            forwardsUpTo(chain, s, ahead);
        }
        for (std::size_t s = entries; s-- > 0;)
            backward(chain, s, m);
    }
    double end = 0;
    for (std::size_t s = 0; s < entries; ++s)
        end = std::max(
            end, std::max(m_lane[s], m_back[s]) + (chain.allReduce.empty() ? 0.0 : std::max(0.0, chain.allReduce[s])));
    return end;
}

} // namespace planloom::planners::dapple
