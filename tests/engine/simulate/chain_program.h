// SPDX-License-Identifier: Apache-2.0
// A DAPPLE chain as a Program, so that the cost clock can be compared with worked examples and with formulas.
#pragma once

#include "planners/dapple/chain.h"
#include "tests/engine/simulate/hand_made.h"

#include <algorithm>

namespace planloom {

/// Builds the tasks of one Chain: forward of (s, m) waits for (s-1, m), backward of (s, m) for (s+1, m) and its own
/// forward.
class ChainCompiler {
public:
    explicit ChainCompiler(const planners::dapple::Chain &chain)
        : m_chain(chain),
          m_count(static_cast<std::int32_t>(chain.forward.size())),
          m_hand(chain.forward.size())
    {
    }

    program::Program compile()
    {
        for (std::int32_t s = 0; s < m_count; ++s)
            addPasses(s);
        for (std::int32_t s = 0; s < m_count; ++s)
            connect(s);
        for (std::int32_t s = 0; s < m_count; ++s)
            addAllReduce(s);
        program::Program program = m_hand.made();
        program.microBatches = m_chain.microBatches;
        program.lowerBound = bound();
        return program;
    }

private:
    [[nodiscard]] bool duplex(std::int32_t s) const
    {
        return !m_chain.fullDuplex.empty() && m_chain.fullDuplex[static_cast<std::size_t>(s)];
    }
    [[nodiscard]] TaskId forwardOf(std::int32_t s, std::int32_t m) const { return TaskId((s * micro() + m) * 2); }
    [[nodiscard]] TaskId backwardOf(std::int32_t s, std::int32_t m) const { return TaskId((s * micro() + m) * 2 + 1); }
    [[nodiscard]] std::int32_t micro() const { return static_cast<std::int32_t>(m_chain.microBatches); }

    void addPasses(std::int32_t s)
    {
        const auto index = static_cast<std::size_t>(s);
        const bool link = duplex(s);
        for (std::int32_t m = 0; m < micro(); ++m) {
            m_hand.add(s, link ? program::Lane::Send : program::Lane::Compute, trace::Kind::Forward,
                       m_chain.forward[index], m, s);
            m_hand.add(s, link ? program::Lane::Receive : program::Lane::Compute, trace::Kind::Backward,
                       m_chain.backward[index], m, s);
        }
        if (link)
            return;
        const int depth = m_chain.gpipe ? micro() : (m_chain.depth.empty() ? m_count - s : m_chain.depth[index]);
        for (const schedule::PassStep &step : schedule::earlyBackwardOrder(m_chain.microBatches, depth))
            m_hand.next(step.forward() ? forwardOf(s, step.microBatch) : backwardOf(s, step.microBatch));
    }

    void connect(std::int32_t s)
    {
        for (std::int32_t m = 0; m < micro(); ++m) {
            if (s > 0)
                m_hand.after(forwardOf(s, m), forwardOf(s - 1, m));
            m_hand.after(backwardOf(s, m), s + 1 < m_count ? backwardOf(s + 1, m) : forwardOf(s, m));
        }
    }

    void addAllReduce(std::int32_t s)
    {
        const auto index = static_cast<std::size_t>(s);
        if (m_chain.allReduce.empty() || m_chain.allReduce[index] <= 0)
            return;
        const TaskId reduce =
            m_hand.add(s, program::Lane::Collective, trace::Kind::AllReduce, m_chain.allReduce[index], -1, s);
        for (std::int32_t m = 0; m < micro(); ++m)
            m_hand.after(reduce, backwardOf(s, m));
    }

    [[nodiscard]] Seconds bound() const
    {
        Seconds longest;
        for (std::size_t s = 0; s < m_chain.forward.size(); ++s) {
            const double forward = m_chain.forward[s];
            const double backward = m_chain.backward[s];
            const double once = duplex(static_cast<std::int32_t>(s)) ? std::max(forward, backward) : forward + backward;
            longest = std::max(longest, Seconds(once * static_cast<double>(m_chain.microBatches)));
        }
        return longest;
    }

    const planners::dapple::Chain &m_chain;
    std::int32_t m_count;
    testing::HandMade m_hand;
};

inline program::Program chainProgram(const planners::dapple::Chain &chain) { return ChainCompiler(chain).compile(); }

} // namespace planloom
