// SPDX-License-Identifier: Apache-2.0
#include "planners/spp/execution.h"

#include <algorithm>

namespace planloom::planners::spp {
namespace {

class Scheduler {
public:
    Scheduler(const Instance &instance, const std::vector<Part> &parts, TieBreak tie, Duplex duplex)
        : m_instance(instance),
          m_parts(parts),
          m_tie(tie),
          m_duplex(duplex),
          m_microBatches(static_cast<std::size_t>(instance.microBatches)),
          m_free(2 * parts.size(), 0),
          m_freeBack(2 * parts.size(), 0),
          m_ready(m_microBatches, 0)
    {
        const std::size_t last = parts.size() - 1;
        for (std::size_t n = 0; n < parts.size(); ++n) {
            const Passes passes = instance.passes(parts[n].first, parts[n].last, parts[n].begin, parts[n].end);
            m_times.push_back(n < last ? passes : Passes{passes.sum(), 0});
            if (n == last)
                break;
            const Line line = instance.channel(parts[n].begin, parts[n].end, parts[n + 1].end);
            m_times.push_back({line.seconds(instance.forwardBytes[parts[n].last - 1]),
                               line.seconds(instance.backwardBytes[parts[n].last - 1])});
        }
    }

    Execution run()
    {
        Execution execution;
        const std::size_t steps = 2 * m_times.size() - 1; // there and back again
        for (std::size_t cycle = 0; cycle < m_microBatches + steps - 1; ++cycle) {
            for (std::size_t resource = 0; resource < m_times.size(); ++resource) {
                // A resource has at most one block of each direction in a cycle, of different micro-batches.
                for (int side = 0; side < 2; ++side) {
                    const bool backward = (side == 0) == (m_tie == TieBreak::BackwardFirst);
                    const std::size_t step = backward ? steps - 1 - resource : resource;
                    if ((backward && resource + 1 == m_times.size()) || cycle < step || cycle - step >= m_microBatches)
                        continue;
                    execution.blocks.push_back(place(resource, cycle - step, backward));
                }
            }
        }
        finish(execution);
        return execution;
    }

private:
    Block place(std::size_t resource, std::size_t microBatch, bool backward)
    {
        double &free =
            backward && resource % 2 == 1 && m_duplex == Duplex::Full ? m_freeBack[resource] : m_free[resource];
        Block block{resource, microBatch, backward, std::max(free, m_ready[microBatch]), 0};
        block.end = block.begin + (backward ? m_times[resource].backward : m_times[resource].forward);
        free = block.end;
        m_ready[microBatch] = block.end;
        return block;
    }

    void finish(Execution &execution) const
    {
        double slowest = 0;
        double longest = 0;
        for (const Passes &times : m_times)
            slowest = std::max(slowest, times.sum());
        for (std::size_t n = 0; n < m_parts.size(); ++n) {
            const double reduction =
                m_instance.reduce(m_parts[n].first, m_parts[n].last, m_parts[n].begin, m_parts[n].end);
            longest = std::max(longest, reduction);
            execution.seconds = std::max(execution.seconds, m_free[2 * n] + reduction);
        }
        execution.bound = static_cast<double>(m_microBatches + 4 * m_parts.size() - 4) * slowest + longest;
    }

    const Instance &m_instance;
    const std::vector<Part> &m_parts;
    TieBreak m_tie;
    Duplex m_duplex;
    std::size_t m_microBatches;
    std::vector<Passes> m_times;    ///< by resource
    std::vector<double> m_free;     ///< by resource: when it has nothing left to do
    std::vector<double> m_freeBack; ///< the same for the way back of channels that work in both directions at once
    std::vector<double> m_ready;    ///< by micro-batch: when its latest block ended
};

} // namespace

Execution execute(const Instance &instance, const std::vector<Part> &parts, TieBreak tie, Duplex duplex)
{
    return Scheduler(instance, parts, tie, duplex).run();
}

std::vector<int> warmupOf(std::size_t stages, std::size_t microBatches, TieBreak tie)
{
    std::vector<int> depths;
    for (std::size_t n = 1; n <= stages; ++n) {
        const std::size_t depth = n == stages ? 1 : 4 * (stages - n) + (tie == TieBreak::ForwardFirst ? 1 : 0);
        depths.push_back(static_cast<int>(std::min(depth, microBatches)));
    }
    return depths;
}

} // namespace planloom::planners::spp
