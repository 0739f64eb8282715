// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"

#include <string>
#include <vector>

namespace planloom::testing {

/// Makes Programs by hand, for worked examples of the cost clock. Tasks of a rank are listed in the order of add().
class HandMade {
public:
    /// Rank r runs on device r of whatever cluster it is simulated on.
    explicit HandMade(std::size_t ranks)
    {
        m_program.ranks.resize(ranks);
        for (std::size_t r = 0; r < ranks; ++r)
            m_program.ranks[r].device = DeviceId(static_cast<std::int64_t>(r));
        m_program.microBatches = 1;
        m_program.globalBatch = 1;
    }

    /// A task of @p seconds that views show as @p kind. Its id text follows from kind, stage and micro-batch.
    TaskId add(std::int32_t rank, program::Lane lane, trace::Kind kind, double seconds, std::int32_t microBatch = -1,
               std::int32_t stage = 0)
    {
        return add(rank, lane, payloadOf(kind), seconds, microBatch, stage);
    }
    TaskId add(std::int32_t rank, program::Lane lane, const program::Payload &payload, double seconds,
               std::int32_t microBatch = -1, std::int32_t stage = 0)
    {
        const TaskId id(static_cast<std::int64_t>(m_program.tasks.size()));
        program::Task task;
        task.payload = payload;
        task.lane = lane;
        task.rank = RankId(rank);
        task.stage = StageId(stage);
        task.microBatch = microBatch;
        task.duration = Seconds(seconds);
        m_program.tasks.push_back(task);
        m_program.ranks[static_cast<std::size_t>(rank)].tasks.push_back(id);
        m_before.emplace_back();
        return id;
    }
    void after(TaskId task, TaskId before, std::int32_t stepsBack = 0)
    {
        m_before[task.index()].push_back({before, stepsBack});
    }
    void runs(TaskId task, const program::Cadence &cadence)
    {
        m_program.cadences.push_back(cadence);
        m_program.tasks[task.index()].cadence = static_cast<std::int32_t>(m_program.cadences.size());
    }
    /// After @p steps all repeats; what stays open may end in @p openSteps more.
    void repeats(std::int32_t steps, std::int32_t openSteps, std::int64_t steadyFrom = 0)
    {
        m_program.periodSteps = steps;
        m_program.openSteps = openSteps;
        m_program.steadyFrom = steadyFrom;
    }
    /// The next compute task in its rank's order.
    void next(TaskId task) { m_program.ranks[m_program.task(task).rank.index()].computeOrder().push_back(task); }
    void group(const std::vector<TaskId> &members)
    {
        const auto first = static_cast<std::int32_t>(m_program.groupMembers.size());
        for (const TaskId member : members) {
            m_program.tasks[member.index()].group = GroupId(static_cast<std::int64_t>(m_program.groups.size()));
            m_program.groupMembers.push_back(member);
        }
        m_program.groups.push_back({first, static_cast<std::int32_t>(m_program.groupMembers.size())});
    }

    program::Program made()
    {
        for (std::size_t t = 0; t < m_program.tasks.size(); ++t) {
            program::Task &task = m_program.tasks[t];
            task.dependencies.first = static_cast<std::int32_t>(m_program.dependencies.size());
            m_program.dependencies.insert(m_program.dependencies.end(), m_before[t].begin(), m_before[t].end());
            task.dependencies.last = static_cast<std::int32_t>(m_program.dependencies.size());
        }
        return std::move(m_program);
    }

private:
    static program::Payload payloadOf(trace::Kind kind)
    {
        using program::Pass;
        switch (kind) {
        case trace::Kind::Backward: return program::Compute{Pass::Backward};
        case trace::Kind::Recompute: return program::Compute{Pass::Recompute};
        case trace::Kind::WeightGradient: return program::Compute{Pass::WeightGradient};
        case trace::Kind::Send: return program::Transfer{Pass::Forward, true};
        case trace::Kind::Receive: return program::Transfer{Pass::Forward, false};
        case trace::Kind::AllReduce: return program::Exchange{};
        case trace::Kind::Optimizer: return program::Update{};
        case trace::Kind::Agreement: return program::Agreement{};
        default: return program::Compute{Pass::Forward};
        }
    }

    program::Program m_program;
    std::vector<std::vector<program::Dependency>> m_before; ///< per task
};

} // namespace planloom::testing
