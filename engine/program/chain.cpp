// SPDX-License-Identifier: Apache-2.0
#include "engine/program/program.h"
#include "engine/program/schedule.h"

#include <algorithm>

namespace planloom::program {
namespace {

/// Builds the tasks of one Chain: forward of (s, m) waits for (s-1, m), backward of (s, m) for (s+1, m) and its own forward.
class ChainCompiler {
public:
    explicit ChainCompiler(const Chain &chain) : m_chain(chain), m_count(static_cast<std::int32_t>(chain.forward.size())) {}

    Program compile()
    {
        m_program.microBatches = m_chain.microBatches;
        m_program.ranks.resize(m_chain.forward.size());
        for (std::int32_t s = 0; s < m_count; ++s)
            addPasses(s);
        for (std::int32_t s = 0; s < m_count; ++s)
            addAllReduce(s);
        connect();
        bound();
        return std::move(m_program);
    }

private:
    [[nodiscard]] bool duplex(std::int32_t s) const { return !m_chain.fullDuplex.empty() && m_chain.fullDuplex[static_cast<std::size_t>(s)]; }
    [[nodiscard]] std::int32_t forwardOf(std::int32_t s, std::int32_t m) const { return (s * micro() + m) * 2; }
    [[nodiscard]] std::int32_t backwardOf(std::int32_t s, std::int32_t m) const { return forwardOf(s, m) + 1; }
    [[nodiscard]] std::int32_t micro() const { return static_cast<std::int32_t>(m_chain.microBatches); }

    TaskId add(trace::Kind kind, Lane lane, std::int32_t s, std::int32_t m, double seconds)
    {
        const TaskId id(static_cast<std::int64_t>(m_program.tasks.size()));
        Task task;
        task.kind = kind;
        task.lane = lane;
        task.rank = RankId(s);
        task.stage = StageId(s);
        task.microBatch = m;
        task.duration = Seconds(seconds);
        m_program.tasks.push_back(task);
        m_program.ranks[static_cast<std::size_t>(s)].tasks.push_back(id);
        return id;
    }

    void addPasses(std::int32_t s)
    {
        const auto index = static_cast<std::size_t>(s);
        const bool link = duplex(s);
        for (std::int32_t m = 0; m < micro(); ++m) {
            add(trace::Kind::Forward, link ? Lane::Send : Lane::Compute, s, m, m_chain.forward[index]);
            add(trace::Kind::Backward, link ? Lane::Receive : Lane::Compute, s, m, m_chain.backward[index]);
        }
        if (link)
            return;
        const int depth = m_chain.gpipe ? micro() : (m_chain.depth.empty() ? m_count - s : m_chain.depth[index]);
        for (const PassStep &step : earlyBackwardOrder(m_chain.microBatches, depth))
            m_program.ranks[index].order.push_back(TaskId(step.forward() ? forwardOf(s, step.microBatch) : backwardOf(s, step.microBatch)));
    }

    void addAllReduce(std::int32_t s)
    {
        const auto index = static_cast<std::size_t>(s);
        if (m_chain.allReduce.empty() || m_chain.allReduce[index] <= 0)
            return;
        add(trace::Kind::AllReduce, Lane::Collective, s, -1, m_chain.allReduce[index]);
    }

    void connect()
    {
        for (Task &task : m_program.tasks) {
            const std::int32_t s = task.rank.value;
            const std::int32_t m = task.microBatch;
            task.firstDependency = static_cast<std::int32_t>(m_program.dependencies.size());
            if (task.kind == trace::Kind::Forward && s > 0)
                m_program.dependencies.emplace_back(forwardOf(s - 1, m));
            if (task.kind == trace::Kind::Backward)
                m_program.dependencies.emplace_back(s + 1 < m_count ? backwardOf(s + 1, m) : forwardOf(s, m));
            if (task.kind == trace::Kind::AllReduce)
                for (std::int32_t k = 0; k < micro(); ++k)
                    m_program.dependencies.emplace_back(backwardOf(s, k));
            task.lastDependency = static_cast<std::int32_t>(m_program.dependencies.size());
        }
    }

    void bound()
    {
        for (std::size_t s = 0; s < m_chain.forward.size(); ++s) {
            const double forward = m_chain.forward[s];
            const double backward = m_chain.backward[s];
            const double once = duplex(static_cast<std::int32_t>(s)) ? std::max(forward, backward) : forward + backward;
            m_program.lowerBound = std::max(m_program.lowerBound, Seconds(once * static_cast<double>(m_chain.microBatches)));
        }
    }

    const Chain &m_chain;
    std::int32_t m_count;
    Program m_program;
};

} // namespace

Program chainProgram(const Chain &chain) { return ChainCompiler(chain).compile(); }

} // namespace planloom::program
