// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/task_draft.h"

#include <algorithm>

namespace planloom::compile {
namespace {

class Grouping {
public:
    Grouping(Compilation &all, TaskDraft &draft) : m_all(all), m_program(all.program), m_draft(draft) {}

    void groupMessages()
    {
        std::vector<TaskId> members;
        for (std::int64_t m = 0; m < m_all.plan.microBatches; ++m) {
            for (std::size_t s = 0; s + 1 < m_all.stages.size(); ++s) {
                if (m_all.staysOnDevice(s))
                    continue;
                members.clear();
                collect(s, &SiteTasks::sendActivation, m, members);
                collect(s + 1, &SiteTasks::receiveActivation, m, members);
                addGroup(members);
                members.clear();
                collect(s + 1, &SiteTasks::sendGradient, m, members);
                collect(s, &SiteTasks::receiveGradient, m, members);
                addGroup(members);
            }
        }
    }

    void groupExchanges()
    {
        std::vector<std::vector<TaskId>> perBucket(m_program.buckets.size());
        auto restores = perBucket;
        auto averages = perBucket;
        for (const SiteTasks &tasks : m_draft.sites) {
            for (const TaskId id : tasks.exchange)
                perBucket[bucketOf(id)].push_back(id);
            for (const LateSum &each : tasks.lateSums)
                perBucket[bucketOf(each.exchange)].push_back(each.exchange);
            for (const TaskId id : tasks.restore)
                restores[bucketOf(id)].push_back(id);
            for (const Averaging &each : tasks.averaging)
                averages[bucketOf(each.average)].push_back(each.average);
        }
        for (const auto *exchanges : {&perBucket, &restores, &averages})
            for (const auto &bucket : *exchanges)
                addGroup(bucket);
    }

    void groupRows()
    {
        std::vector<std::vector<TaskId>> perTable[3];
        for (auto &groups : perTable)
            groups.resize(m_program.tables.size());
        for (const SiteTasks &tasks : m_draft.sites)
            for (const RowTasks &rows : tasks.rows) {
                const std::size_t table = m_program.task(rows.collect).as<program::RowWork>()->table.index();
                const TaskId exchanges[] = {rows.forward, rows.backward, rows.delayed};
                for (std::size_t i = 0; i < std::size(exchanges); ++i)
                    if (exchanges[i].valid())
                        perTable[i][table].push_back(exchanges[i]);
            }
        for (const auto &groups : perTable)
            for (const auto &members : groups)
                addGroup(members);
    }

    void groupBoxing()
    {
        std::sort(m_draft.boxing.begin(), m_draft.boxing.end());
        std::vector<TaskId> members;
        for (std::size_t i = 0; i < m_draft.boxing.size(); ++i) {
            members.push_back(m_draft.boxing[i].second);
            if (i + 1 < m_draft.boxing.size() && m_draft.boxing[i + 1].first == m_draft.boxing[i].first)
                continue;
            addGroup(members);
            members.clear();
        }
    }

    /// All ranks agree together; a single rank needs no group.
    void groupAgreements()
    {
        for (const std::vector<TaskId> *agreements :
             {&m_draft.agreeOnStep, &m_draft.agreeOnNorm, &m_draft.agreeOnUpdate})
            if (agreements->size() > 1)
                addGroup(*agreements);
    }

private:
    [[nodiscard]] std::size_t bucketOf(TaskId exchange) const
    {
        return m_program.task(exchange).as<program::Exchange>()->bucket.index();
    }

    void addGroup(const std::vector<TaskId> &members)
    {
        if (members.empty())
            return;
        const GroupId index(static_cast<std::int64_t>(m_program.groups.size()));
        const auto first = static_cast<std::int32_t>(m_program.groupMembers.size());
        for (const TaskId id : members) {
            m_program.tasks[id.index()].group = index;
            m_program.groupMembers.push_back(id);
        }
        m_program.groups.push_back({first, static_cast<std::int32_t>(m_program.groupMembers.size())});
    }

    void collect(std::size_t stage, std::vector<TaskId> SiteTasks::*list, std::int64_t m,
                 std::vector<TaskId> &members) const
    {
        for (const std::size_t site : m_all.sitesOf[stage])
            if (const std::vector<TaskId> &tasks = m_draft.sites[site].*list; !tasks.empty())
                members.push_back(tasks[static_cast<std::size_t>(m)]);
    }

    Compilation &m_all;
    Program &m_program;
    TaskDraft &m_draft;
};

} // namespace

void groupTasks(Compilation &all, TaskDraft &draft)
{
    Grouping grouping(all, draft);
    grouping.groupMessages();
    grouping.groupExchanges();
    grouping.groupRows();
    grouping.groupBoxing();
    grouping.groupAgreements();
}

} // namespace planloom::compile
