// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/task_draft.h"

#include <algorithm>
#include <numeric>

namespace planloom::compile {
namespace {

/// Each step leaves its part in the program or the draft; flattenDependencies() comes last.
class Ordering {
public:
    Ordering(Compilation &all, TaskDraft &draft) : m_all(all), m_program(all.program), m_draft(draft) {}

    void connect(std::size_t index)
    {
        const RankSite &site = m_all.sites[index];
        const SiteTasks &t = m_draft.sites[index];
        const auto before = [&site](Area area, std::int64_t m) {
            return site.slotPlan.previous[static_cast<std::size_t>(area)][static_cast<std::size_t>(m)];
        };
        const std::vector<PassTasks> &closing =
            t.weights.empty() ? t.backward : t.weights; // after it nothing of a micro-batch is kept
        for (std::int64_t m = 0; m < m_all.plan.microBatches; ++m) {
            m_draft.depend(firstOf(t.forward, m), taskAt(t.receiveActivation, m));
            m_draft.depend(taskAt(t.sendActivation, m), lastOf(t.forward, m));
            m_draft.depend(firstOf(t.backward, m), taskAt(t.receiveGradient, m));
            m_draft.depend(taskAt(t.sendGradient, m), lastOf(t.backward, m));
            // A slot is taken again only when the micro-batch before is done with it.
            m_draft.depend(taskAt(t.receiveActivation, m), lastOf(closing, before(Area::Inbox, m)));
            m_draft.depend(firstOf(t.forward, m), taskAt(t.sendActivation, before(Area::Outbox, m)));
            m_draft.depend(taskAt(t.receiveGradient, m), lastOf(closing, before(Area::GradientInbox, m)));
            m_draft.depend(taskAt(t.receiveGradient, m), taskAt(t.sendGradient, before(Area::GradientInbox, m)));
            m_draft.depend(firstOf(t.backward, m), taskAt(t.sendGradient, before(Area::GradientOutbox, m)));
        }
    }

    void connectOrder(RankId id)
    {
        Rank &rank = m_program.ranks[id.index()];
        lookUpRows(rank);
        updateLate(rank);
        for (const PassStep &step : m_all.orders[id.index()])
            appendPass(rank, step);
        const TaskId lastPass = rank.computeOrder().empty() ? TaskId() : rank.computeOrder().back();
        std::vector<TaskId> exchanges;
        for (const BodyId b : rank.bodies) {
            const SiteTasks &site = m_draft.sites[b.index()];
            for (const TaskId exchange : site.exchange) {
                m_draft.depend(exchange, completes(rank, site, m_program.task(exchange)));
                exchanges.push_back(exchange);
            }
            for (const LateSum &late : site.lateSums)
                m_draft.depend(late.exchange, completes(rank, site, m_program.task(late.exchange)));
        }
        collectRows(rank, lastPass);
        const TaskId norm = m_draft.agreeOnNorm.empty() ? TaskId() : m_draft.agreeOnNorm[id.index()];
        m_draft.depend(norm, lastPass);
        for (const TaskId exchange : exchanges)
            m_draft.depend(norm, exchange);
        for (const BodyId b : rank.bodies) {
            const SiteTasks &t = m_draft.sites[b.index()];
            if (t.updates.empty())
                continue;
            rank.computeOrder().push_back(t.updates.front());
            for (const TaskId exchange : exchanges) // all of them, as the length of a gradient is that of all
                m_draft.depend(t.updates.front(), exchange);
            m_draft.depend(t.updates.front(), norm);
            for (const TaskId restore : t.restore)
                m_draft.depend(restore, t.updates.back());
            connectStates(t, lastPass);
        }
        updateRows(rank);
        if (m_all.plan.exchange.averages())
            connectAverages(rank);
        if (!m_draft.agreeOnUpdate.empty())
            connectPhases(rank, m_draft.agreeOnUpdate[id.index()], norm.valid() ? norm : lastPass);
        if (!m_draft.agreeOnStep.empty())
            m_draft.depend(m_draft.agreeOnStep[id.index()], lastForward(rank));
    }

    /// The optimizer's states come when no activation is left in the pool, and go before the next step's are made.
    void connectStates(const SiteTasks &t, TaskId lastPass)
    {
        m_draft.depend(t.bringStates, lastPass);
        for (const TaskId copy : t.copiesOut)
            m_draft.depend(t.bringStates, copy);
        m_draft.depend(t.updates.front(), t.bringStates);
        m_draft.depend(t.leaveStates, t.updates.back());
    }

    /// All look-ups stand in front of the passes, since they need ids and tables only.
    void lookUpRows(Rank &rank)
    {
        for (const BodyId b : rank.bodies) {
            const SiteTasks &t = m_draft.sites[b.index()];
            for (const RowTasks &rows : t.rows) {
                if (rows.lookUp.valid())
                    rank.computeOrder().push_back(rows.lookUp);
                m_draft.depend(rows.forward, rows.lookUp);
                for (const PassTasks &forward : t.forward)
                    m_draft.depend(forward.first, rows.forward);
                m_draft.depend(rows.delayed, rows.forward); // which a step waits for; these it does not
            }
        }
    }

    /// What was summed up in the step before is waited for in front of what reads it: of buckets whose reader is not
    /// known, in front of all passes.
    void updateLate(Rank &rank)
    {
        for (const BodyId b : rank.bodies)
            for (const LateSum &late : m_draft.sites[b.index()].lateSums) {
                waitFor(late.update, late.exchange, 1);
                if (!late.reader.valid())
                    rank.computeOrder().push_back(late.update);
            }
    }

    /// Rows of the step before that were exchanged meanwhile are updated first: only the next look-up needs them, but
    /// this step's take their place.
    void collectRows(Rank &rank, TaskId lastPass)
    {
        for (const BodyId b : rank.bodies)
            for (const RowTasks &rows : m_draft.sites[b.index()].rows) {
                if (rows.updateDelayed.valid())
                    rank.computeOrder().push_back(rows.updateDelayed);
                rank.computeOrder().push_back(rows.collect);
                m_draft.depend(rows.updateDelayed, rows.delayed);
                m_draft.depend(rows.collect, rows.updateDelayed);
                m_draft.depend(rows.collect, lastPass);
                m_draft.depend(rows.backward, rows.collect);
            }
    }

    /// Behind the dense parameters, whose update takes longer: it overlaps with rows on their way.
    void updateRows(Rank &rank)
    {
        for (const BodyId b : rank.bodies)
            for (const RowTasks &rows : m_draft.sites[b.index()].rows) {
                rank.computeOrder().push_back(rows.update);
                m_draft.depend(rows.update, rows.backward);
            }
    }

    /// Behind the rank's updates: what was averaged is merged before the next snapshot. Without a delay the merge is
    /// that of the step's own snapshot.
    void connectAverages(Rank &rank)
    {
        const int later = averagesComeLater(m_all.plan) ? 1 : 0;
        const auto delay = static_cast<std::int32_t>(m_all.plan.exchange.averaging.delay);
        std::vector<TaskId> snapshots, merges;
        for (const BodyId b : rank.bodies) {
            const SiteTasks &t = m_draft.sites[b.index()];
            for (const Averaging &each : t.averaging) {
                m_draft.depend(each.snapshot, t.updates.back());
                m_draft.depend(each.merge, t.updates.back());
                waitFor(each.average, each.snapshot, later);
                waitFor(each.merge, each.average, delay - later);
                if (delay > 0)
                    m_draft.depend(each.snapshot, each.merge);
                if (later > 0)
                    followRows(rank, each.average);
                snapshots.push_back(each.snapshot);
                merges.push_back(each.merge);
            }
        }
        std::vector<TaskId> &order = rank.computeOrder();
        for (const auto *tasks : {delay > 0 ? &merges : &snapshots, delay > 0 ? &snapshots : &merges})
            order.insert(order.end(), tasks->begin(), tasks->end());
    }

    void waitFor(TaskId task, TaskId on, std::int32_t stepsBack)
    {
        if (stepsBack == 0)
            m_draft.depend(task, on);
        else
            m_draft.carried.push_back({task, {on, stepsBack}});
    }

    void followRows(const Rank &rank, TaskId average)
    {
        for (const BodyId b : rank.bodies)
            for (const RowTasks &rows : m_draft.sites[b.index()].rows)
                m_draft.depend(average, rows.forward);
    }

    /// The second phase of every update waits for @p agreement on what the first ones have found, which a rank without
    /// parameters takes part in behind @p otherwise.
    void connectPhases(Rank &rank, TaskId agreement, TaskId otherwise)
    {
        m_draft.depend(agreement, otherwise);
        for (const BodyId b : rank.bodies) {
            const SiteTasks &t = m_draft.sites[b.index()];
            if (t.updates.empty())
                continue;
            m_draft.depend(agreement, t.updates.front());
            m_draft.depend(t.updates.back(), agreement);
            rank.computeOrder().push_back(t.updates.back());
        }
    }

    /// Each task's dependencies, in the order of what it waits for: counted into place, as a sort of all is most of the
    /// compilation of a long schedule.
    void flattenDependencies()
    {
        std::vector<std::int32_t> next(m_program.tasks.size() + 1, 0);
        for (const auto &[task, on] : m_draft.edges)
            ++next[task.index() + 1];
        for (const auto &[task, on] : m_draft.carried)
            ++next[task.index() + 1];
        std::partial_sum(next.begin(), next.end(), next.begin());
        for (std::size_t t = 0; t < m_program.tasks.size(); ++t)
            m_program.tasks[t].dependencies = {next[t], next[t + 1]};
        m_program.dependencies.resize(m_draft.edges.size() + m_draft.carried.size());
        for (const auto &[task, on] : m_draft.edges)
            m_program.dependencies[static_cast<std::size_t>(next[task.index()]++)] = {on};
        for (const auto &[task, on] : m_draft.carried)
            m_program.dependencies[static_cast<std::size_t>(next[task.index()]++)] = on;
        const auto dependencies = m_program.dependencies.begin();
        for (const Task &task : m_program.tasks)
            if (task.dependencies.last - task.dependencies.first > 1)
                std::sort(dependencies + task.dependencies.first, dependencies + task.dependencies.last);
    }

private:
    static TaskId taskAt(const std::vector<TaskId> &tasks, std::int64_t m)
    {
        return m >= 0 && !tasks.empty() ? tasks[static_cast<std::size_t>(m)] : TaskId();
    }

    static TaskId firstOf(const std::vector<PassTasks> &passes, std::int64_t m)
    {
        return passes[static_cast<std::size_t>(m)].first;
    }
    static TaskId lastOf(const std::vector<PassTasks> &passes, std::int64_t m)
    {
        return m >= 0 ? passes[static_cast<std::size_t>(m)].last : TaskId();
    }

    void appendPass(Rank &rank, const PassStep &step)
    {
        const SiteTasks &t = m_draft.sites[siteOn(rank, step.stage)];
        const auto m = static_cast<std::size_t>(step.microBatch);
        const auto appendRun = [&](TaskId run) {
            for (const LateSum &late : t.lateSums)
                if (late.reader == run)
                    rank.computeOrder().push_back(late.update);
            rank.computeOrder().push_back(run);
        };
        const auto append = [&](const PassTasks &pass) {
            if (pass.runs.empty())
                appendRun(pass.first);
            for (const TaskId run : pass.runs)
                appendRun(run);
        };
        if (step.pass == Pass::Backward && !t.recompute.empty())
            append(t.recompute[m]);
        append(step.forward() ? t.forward[m] : step.pass == Pass::Backward ? t.backward[m] : t.weights[m]);
    }

    [[nodiscard]] std::size_t siteOn(const Rank &rank, std::int32_t stage) const
    {
        for (const BodyId b : rank.bodies)
            if (m_all.sites[b.index()].stage.value == stage)
                return b.index();
        return rank.bodies.front().index();
    }

    /// The rank's last forward pass: with it the step's loss is known, and there is time left to agree on it.
    [[nodiscard]] TaskId lastForward(const Rank &rank) const
    {
        const std::vector<TaskId> &order = rank.computeOrder();
        const auto found = std::find_if(order.rbegin(), order.rend(),
                                        [this](TaskId id) { return m_program.task(id).pass() == Pass::Forward; });
        return found == order.rend() ? TaskId() : *found;
    }

    /// The compute task behind which what @p exchange sums up is there.
    [[nodiscard]] TaskId completes(const Rank &rank, const SiteTasks &site, const Task &exchange) const
    {
        const StageParts &parts = m_draft.parts[exchange.stage.index()];
        const BucketId bucket = exchange.as<program::Exchange>()->bucket;
        const auto run = parts.complete.find(m_program.bucket(bucket).entries.front().parameter);
        return run == parts.complete.end() ? lastUser(rank, bucket) : site.lastParts[run->second];
    }

    /// The last compute task of the stages on @p rank that have the parameters of bucket @p index.
    [[nodiscard]] TaskId lastUser(const Rank &rank, BucketId index) const
    {
        if (rank.bodies.size() == 1)
            return rank.computeOrder().back();
        const std::string &parameter = m_program.bucket(index).entries.front().parameter;
        const auto uses = [&](TaskId id) {
            return m_all.hasParameter(m_program.tasks[id.index()].stage.index(), parameter);
        };
        const auto found = std::find_if(rank.computeOrder().rbegin(), rank.computeOrder().rend(), uses);
        return found == rank.computeOrder().rend() ? rank.computeOrder().back() : *found;
    }

    Compilation &m_all;
    Program &m_program;
    TaskDraft &m_draft;
};

} // namespace

void orderTasks(Compilation &all, TaskDraft &draft)
{
    Ordering ordering(all, draft);
    for (std::size_t site = 0; site < all.sites.size(); ++site)
        ordering.connect(site);
    for (std::size_t rank = 0; rank < all.program.ranks.size(); ++rank)
        ordering.connectOrder(RankId(static_cast<std::int64_t>(rank)));
    ordering.flattenDependencies();
}

} // namespace planloom::compile
