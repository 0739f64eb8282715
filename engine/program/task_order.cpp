// SPDX-License-Identifier: Apache-2.0
#include "engine/program/task_draft.h"

#include <algorithm>

namespace planloom::program {
namespace {

/// Each step leaves its part in the program or the draft; flattenDependencies() comes last.
class Ordering {
public:
    Ordering(Compilation &all, TaskDraft &draft) : m_all(all), m_program(all.program), m_draft(draft) {}

    void connect(std::size_t index)
    {
        const RankSite &site = m_all.sites[index];
        const SiteTasks &t = m_draft.sites[index];
        const auto before = [&site](Area area, std::int64_t m) { return site.slotPlan.previous[static_cast<std::size_t>(area)][static_cast<std::size_t>(m)]; };
        const std::vector<PassTasks> &closing = t.weights.empty() ? t.backward : t.weights; // after it nothing of a micro-batch is kept
        for (std::int64_t m = 0; m < m_all.plan.microBatches; ++m) {
            m_draft.depend(firstOf(t.forward, m), taskAt(t.receiveActivation, m));
            m_draft.depend(taskAt(t.sendActivation, m), lastOf(t.forward, m));
            m_draft.depend(firstOf(t.backward, m), taskAt(t.receiveGradient, m));
            m_draft.depend(taskAt(t.sendGradient, m), lastOf(t.backward, m));
            // A slot is taken again only when whoever had it before is done with it.
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
        for (const PassStep &step : m_all.orders[id.index()])
            appendPass(rank, step);
        std::vector<TaskId> exchanges;
        for (const std::int32_t b : rank.bodies) {
            for (const TaskId exchange : m_draft.sites[static_cast<std::size_t>(b)].exchange) {
                m_draft.depend(exchange, completes(rank, m_draft.sites[static_cast<std::size_t>(b)], m_program.tasks[exchange.index()]));
                exchanges.push_back(exchange);
            }
        }
        for (const std::int32_t b : rank.bodies) {
            const SiteTasks &t = m_draft.sites[static_cast<std::size_t>(b)];
            if (t.optimizer.valid())
                rank.order.push_back(t.optimizer);
            for (const TaskId exchange : exchanges) // all of them, as the length of a gradient is that of all
                m_draft.depend(t.optimizer, exchange);
            for (const TaskId restore : t.restore)
                m_draft.depend(restore, t.optimizer);
        }
    }

    void flattenDependencies()
    {
        std::sort(m_draft.edges.begin(), m_draft.edges.end());
        m_program.dependencies.reserve(m_draft.edges.size());
        std::size_t next = 0;
        for (std::size_t t = 0; t < m_program.tasks.size(); ++t) {
            Task &task = m_program.tasks[t];
            task.firstDependency = static_cast<std::int32_t>(m_program.dependencies.size());
            for (; next < m_draft.edges.size() && m_draft.edges[next].first.index() == t; ++next)
                m_program.dependencies.push_back(m_draft.edges[next].second);
            task.lastDependency = static_cast<std::int32_t>(m_program.dependencies.size());
        }
    }

private:
    static TaskId taskAt(const std::vector<TaskId> &tasks, std::int64_t m) { return m >= 0 && !tasks.empty() ? tasks[static_cast<std::size_t>(m)] : TaskId(); }

    static TaskId firstOf(const std::vector<PassTasks> &passes, std::int64_t m) { return passes[static_cast<std::size_t>(m)].first; }
    static TaskId lastOf(const std::vector<PassTasks> &passes, std::int64_t m) { return m >= 0 ? passes[static_cast<std::size_t>(m)].last : TaskId(); }

    void appendPass(Rank &rank, const PassStep &step)
    {
        const SiteTasks &t = m_draft.sites[siteOn(rank, step.stage)];
        const auto m = static_cast<std::size_t>(step.microBatch);
        const auto append = [&rank](const PassTasks &pass) { rank.order.insert(rank.order.end(), pass.runs.begin(), pass.runs.end()); };
        if (step.pass == Pass::Backward && !t.recompute.empty())
            append(t.recompute[m]);
        append(step.forward() ? t.forward[m] : step.pass == Pass::Backward ? t.backward[m] : t.weights[m]);
    }

    [[nodiscard]] std::size_t siteOn(const Rank &rank, std::int32_t stage) const
    {
        for (const std::int32_t b : rank.bodies)
            if (m_all.sites[static_cast<std::size_t>(b)].stage.value == stage)
                return static_cast<std::size_t>(b);
        return static_cast<std::size_t>(rank.bodies.front());
    }

    /// The compute task behind which what @p exchange sums up is there.
    [[nodiscard]] TaskId completes(const Rank &rank, const SiteTasks &site, const Task &exchange) const
    {
        const StageParts &parts = m_draft.parts[exchange.stage.index()];
        const auto run = parts.complete.find(m_program.buckets[static_cast<std::size_t>(exchange.bucket)].entries.front().parameter);
        return run == parts.complete.end() ? lastUser(rank, exchange.bucket) : site.lastParts[run->second];
    }

    /// The last compute task of the stages on @p rank that have the parameters of bucket @p index.
    [[nodiscard]] TaskId lastUser(const Rank &rank, std::int32_t index) const
    {
        if (rank.bodies.size() == 1)
            return rank.order.back();
        const std::string &parameter = m_program.buckets[static_cast<std::size_t>(index)].entries.front().parameter;
        const auto uses = [&](TaskId id) { return m_all.hasParameter(m_program.tasks[id.index()].stage.index(), parameter); };
        const auto found = std::find_if(rank.order.rbegin(), rank.order.rend(), uses);
        return found == rank.order.rend() ? rank.order.back() : *found;
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

} // namespace planloom::program
