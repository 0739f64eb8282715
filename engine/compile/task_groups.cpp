// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/task_groups.h"

#include <map>
#include <utility>

namespace planloom::compile {
namespace {

class Grouping {
public:
    Grouping(const Source &source, const Instances &instances, const Buckets &buckets, const TaskDraft &draft)
        : m_source(source),
          m_instances(instances),
          m_buckets(buckets),
          m_draft(draft)
    {
    }

    TaskGroups group()
    {
        groupMessages();
        groupExchanges();
        groupRows();
        groupBoxing();
        groupAgreements();
        return std::move(m_made);
    }

private:
    void groupMessages()
    {
        std::vector<TaskId> members;
        for (std::int64_t m = 0; m < m_source.plan.microBatches; ++m) {
            for (std::size_t s = 0; s + 1 < m_source.plan.stages.size(); ++s) {
                if (m_source.staysOnDevice(s))
                    continue;
                members.clear();
                collect(s, &BodyTasks::sendActivation, m, members);
                collect(s + 1, &BodyTasks::receiveActivation, m, members);
                addGroup(members);
                members.clear();
                collect(s + 1, &BodyTasks::sendGradient, m, members);
                collect(s, &BodyTasks::receiveGradient, m, members);
                addGroup(members);
            }
        }
    }

    void groupExchanges()
    {
        std::vector<std::vector<TaskId>> perBucket(m_buckets.all.size());
        auto restores = perBucket;
        auto averages = perBucket;
        std::map<std::pair<std::size_t, TeamId>, std::vector<TaskId>> inside;
        for (const BodyTasks &tasks : m_draft.bodies) {
            for (const TaskId id : tasks.exchange)
                if (const auto &exchange = *m_draft.task(id).as<program::Exchange>(); exchange.inside)
                    inside[{bucketOf(id), exchange.team}].push_back(id);
                else
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
        for (const auto &[team, members] : inside)
            addGroup(members);
    }

    void groupRows()
    {
        std::vector<std::vector<TaskId>> perTable[3];
        for (auto &groups : perTable)
            groups.resize(m_buckets.tables.size());
        for (const BodyTasks &tasks : m_draft.bodies)
            for (const RowTasks &rows : tasks.rows) {
                const std::size_t table = m_draft.task(rows.collect).as<program::RowWork>()->table.index();
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

    [[nodiscard]] std::size_t bucketOf(TaskId exchange) const
    {
        return m_draft.task(exchange).as<program::Exchange>()->bucket.index();
    }

    void addGroup(const std::vector<TaskId> &members)
    {
        if (members.empty())
            return;
        const auto first = static_cast<std::int32_t>(m_made.members.size());
        m_made.members.insert(m_made.members.end(), members.begin(), members.end());
        m_made.groups.push_back({first, static_cast<std::int32_t>(m_made.members.size())});
    }

    void collect(std::size_t stage, std::vector<TaskId> BodyTasks::*list, std::int64_t m,
                 std::vector<TaskId> &members) const
    {
        for (const std::size_t body : m_instances.ofStage[stage])
            if (const std::vector<TaskId> &tasks = m_draft.bodies[body].*list; !tasks.empty())
                members.push_back(tasks[static_cast<std::size_t>(m)]);
    }

    const Source &m_source;
    const Instances &m_instances;
    const Buckets &m_buckets;
    const TaskDraft &m_draft;
    TaskGroups m_made;
};

} // namespace

TaskGroups groupTasks(const Source &source, const Instances &instances, const Buckets &buckets, const TaskDraft &draft)
{
    return Grouping(source, instances, buckets, draft).group();
}

} // namespace planloom::compile
