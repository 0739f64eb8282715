// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/task_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace planloom::compile {
namespace {

/// Connects the tasks of every body, then orders every rank; flattenDependencies() comes last.
class Ordering {
public:
    Ordering(const OrderInput &in, const TaskDraft &draft, Edges edges)
        : m_in(in),
          m_draft(draft),
          m_edges(std::move(edges))
    {
        m_made.computeOrders.resize(in.ranks.size());
    }

    TaskOrder order()
    {
        for (std::size_t body = 0; body < m_in.instances.size(); ++body)
            connect(body);
        for (std::size_t rank = 0; rank < m_in.ranks.size(); ++rank)
            connectOrder(RankId(static_cast<std::int64_t>(rank)));
        flattenDependencies();
        return std::move(m_made);
    }

private:
    void connect(std::size_t index)
    {
        const SlotPlan &slots = m_in.instances[index].slotPlan;
        const BodyTasks &t = m_draft.bodies[index];
        const auto before = [&slots](Area area, std::int64_t m) {
            return slots.previous[static_cast<std::size_t>(area)][static_cast<std::size_t>(m)];
        };
        const std::vector<PassTasks> &closing =
            t.weights.empty() ? t.backward : t.weights; // after it nothing of a micro-batch is kept
        for (std::int64_t m = 0; m < m_in.plan.microBatches; ++m) {
            m_edges.depend(firstOf(t.forward, m), taskAt(t.receiveActivation, m));
            m_edges.depend(taskAt(t.sendActivation, m), lastOf(t.forward, m));
            m_edges.depend(firstOf(t.backward, m), taskAt(t.receiveGradient, m));
            m_edges.depend(taskAt(t.sendGradient, m), lastOf(t.backward, m));
            // A slot is taken again only when the micro-batch before is done with it.
            m_edges.depend(taskAt(t.receiveActivation, m), lastOf(closing, before(Area::Inbox, m)));
            m_edges.depend(firstOf(t.forward, m), taskAt(t.sendActivation, before(Area::Outbox, m)));
            m_edges.depend(taskAt(t.receiveGradient, m), lastOf(closing, before(Area::GradientInbox, m)));
            m_edges.depend(taskAt(t.receiveGradient, m), taskAt(t.sendGradient, before(Area::GradientInbox, m)));
            m_edges.depend(firstOf(t.backward, m), taskAt(t.sendGradient, before(Area::GradientOutbox, m)));
        }
    }

    void connectOrder(RankId rank)
    {
        lookUpRows(rank);
        updateLate(rank);
        for (const PassStep &step : m_in.ranks.at(rank).order)
            appendPass(rank, step);
        if (m_in.blocks)
            waitForSends(rank);
        const TaskId lastPass = computeOrder(rank).empty() ? TaskId() : computeOrder(rank).back();
        std::vector<TaskId> exchanges;
        for (const BodyId b : m_in.instances.ofRank[rank.index()]) {
            const BodyTasks &t = m_draft.bodies[b.index()];
            for (const TaskId exchange : t.exchange) {
                m_edges.depend(exchange, completes(rank, t, m_draft.task(exchange)));
                exchanges.push_back(exchange);
            }
            for (const LateSum &late : t.lateSums)
                m_edges.depend(late.exchange, completes(rank, t, m_draft.task(late.exchange)));
        }
        collectRows(rank, lastPass);
        const TaskId norm = m_draft.agreeOnNorm.empty() ? TaskId() : m_draft.agreeOnNorm[rank.index()];
        m_edges.depend(norm, lastPass);
        for (const TaskId exchange : exchanges)
            m_edges.depend(norm, exchange);
        for (const BodyId b : m_in.instances.ofRank[rank.index()]) {
            const BodyTasks &t = m_draft.bodies[b.index()];
            connectParts(rank, t, lastPass);
            for (const PartTasks &part : t.parts) {
                for (const TaskId exchange : exchanges)
                    m_edges.depend(part.update, exchange);
                m_edges.depend(part.update, norm);
            }
            if (t.updates.empty())
                continue;
            computeOrder(rank).push_back(t.updates.front());
            for (const TaskId exchange : exchanges) // all of them, as the length of a gradient is that of all
                m_edges.depend(t.updates.front(), exchange);
            m_edges.depend(t.updates.front(), norm);
            for (const TaskId restore : t.restore)
                m_edges.depend(restore, t.updates.back());
            connectStates(t, lastPass);
        }
        updateRows(rank);
        if (m_in.plan.exchange.averages())
            connectAverages(rank);
        if (!m_draft.agreeOnUpdate.empty())
            connectPhases(rank, m_draft.agreeOnUpdate[rank.index()], norm.valid() ? norm : lastPass);
        if (!m_draft.agreeOnStep.empty())
            m_edges.depend(m_draft.agreeOnStep[rank.index()], lastForward(rank));
    }

    /// The optimizer's states come when no activation is left in the pool, and go before the next step's are made.
    void connectStates(const BodyTasks &t, TaskId lastPass)
    {
        m_edges.depend(t.bringStates, lastPass);
        for (const TaskId copy : t.copiesOut)
            m_edges.depend(t.bringStates, copy);
        m_edges.depend(t.updates.front(), t.bringStates);
        m_edges.depend(t.leaveStates, t.updates.back());
    }

    /// Parameters on the host likewise: each part as soon as those before it have left its place. Parts come one behind
    /// the other, and leave so, so that each waits for the last of them alone.
    void connectParts(RankId rank, const BodyTasks &t, TaskId lastPass)
    {
        TaskId left;
        for (std::size_t p = 0; p < t.parts.size(); ++p) {
            const PartTasks &part = t.parts[p];
            computeOrder(rank).push_back(part.update);
            if (p == 0) {
                m_edges.depend(part.bring, lastPass);
                for (const TaskId copy : t.copiesOut)
                    m_edges.depend(part.bring, copy);
            }
            for (const std::size_t before : part.awaits)
                m_edges.depend(part.bring, t.parts[before].last());
            if (p > 0)
                m_edges.depend(part.bring, t.parts[p - 1].bring);
            m_edges.depend(part.update, part.bring);
            m_edges.depend(part.leave, part.update);
            if (part.leave.valid()) {
                m_edges.depend(part.leave, left);
                left = part.leave;
            }
        }
    }

    /// All look-ups stand in front of the passes, since they need ids and tables only; what reads rows waits for them.
    void lookUpRows(RankId rank)
    {
        for (const BodyId b : m_in.instances.ofRank[rank.index()]) {
            const BodyTasks &t = m_draft.bodies[b.index()];
            for (const RowTasks &rows : t.rows) {
                if (rows.lookUp.valid())
                    computeOrder(rank).push_back(rows.lookUp);
                m_edges.depend(rows.forward, rows.lookUp);
                if (rows.reader.valid()) // before which no other pass reads them
                    m_edges.depend(rows.reader, rows.forward);
                else
                    for (const PassTasks &forward : t.forward)
                        m_edges.depend(forward.first, rows.forward);
                m_edges.depend(rows.delayed, rows.forward); // which a step waits for; these it does not
            }
        }
    }

    /// What was summed up in the step before is waited for in front of what reads it: of buckets whose reader is not
    /// known, in front of all passes.
    void updateLate(RankId rank)
    {
        for (const BodyId b : m_in.instances.ofRank[rank.index()])
            for (const LateSum &late : m_draft.bodies[b.index()].lateSums) {
                m_edges.depend(late.update, late.exchange, 1);
                if (!late.reader.valid())
                    computeOrder(rank).push_back(late.update);
            }
    }

    /// Behind the passes, of tables whose gradients the last one completes at its end.
    void collectRows(RankId rank, TaskId lastPass)
    {
        for (const BodyId b : m_in.instances.ofRank[rank.index()])
            for (const RowTasks &rows : m_draft.bodies[b.index()].rows)
                if (!rows.gradientDone.valid())
                    collectBehind(rank, rows, lastPass);
    }

    /// Rows of the step before that were exchanged meanwhile are updated first: only the next look-up needs them, but
    /// this step's take their place.
    void collectBehind(RankId rank, const RowTasks &rows, TaskId complete)
    {
        if (rows.updateDelayed.valid())
            computeOrder(rank).push_back(rows.updateDelayed);
        computeOrder(rank).push_back(rows.collect);
        m_edges.depend(rows.updateDelayed, rows.delayed);
        m_edges.depend(rows.collect, rows.updateDelayed);
        m_edges.depend(rows.collect, complete);
        m_edges.depend(rows.backward, rows.collect);
    }

    /// Behind the dense parameters, whose update takes longer: it overlaps with rows on their way.
    void updateRows(RankId rank)
    {
        for (const BodyId b : m_in.instances.ofRank[rank.index()])
            for (const RowTasks &rows : m_draft.bodies[b.index()].rows) {
                computeOrder(rank).push_back(rows.update);
                m_edges.depend(rows.update, rows.backward);
            }
    }

    /// Behind the rank's updates: what was averaged is merged before the next snapshot. Without a delay the merge is
    /// that of the step's own snapshot.
    void connectAverages(RankId rank)
    {
        const int later = averagesComeLater(m_in.plan) ? 1 : 0;
        const auto delay = static_cast<std::int32_t>(m_in.plan.exchange.averaging.delay);
        std::vector<TaskId> snapshots, merges;
        for (const BodyId b : m_in.instances.ofRank[rank.index()]) {
            const BodyTasks &t = m_draft.bodies[b.index()];
            for (const Averaging &each : t.averaging) {
                m_edges.depend(each.snapshot, t.updates.back());
                m_edges.depend(each.merge, t.updates.back());
                m_edges.depend(each.average, each.snapshot, later);
                m_edges.depend(each.merge, each.average, delay - later);
                if (delay > 0)
                    m_edges.depend(each.snapshot, each.merge);
                if (later > 0)
                    followRows(rank, each.average);
                snapshots.push_back(each.snapshot);
                merges.push_back(each.merge);
            }
        }
        std::vector<TaskId> &order = computeOrder(rank);
        for (const auto *tasks : {delay > 0 ? &merges : &snapshots, delay > 0 ? &snapshots : &merges})
            order.insert(order.end(), tasks->begin(), tasks->end());
    }

    void followRows(RankId rank, TaskId average)
    {
        for (const BodyId b : m_in.instances.ofRank[rank.index()])
            for (const RowTasks &rows : m_draft.bodies[b.index()].rows)
                m_edges.depend(average, rows.forward);
    }

    /// The second phase of every update waits for @p agreement on what the first ones have found, which a rank without
    /// parameters takes part in behind @p otherwise.
    void connectPhases(RankId rank, TaskId agreement, TaskId otherwise)
    {
        m_edges.depend(agreement, otherwise);
        for (const BodyId b : m_in.instances.ofRank[rank.index()]) {
            const BodyTasks &t = m_draft.bodies[b.index()];
            if (t.updates.empty())
                continue;
            m_edges.depend(agreement, t.updates.front());
            m_edges.depend(t.updates.back(), agreement);
            computeOrder(rank).push_back(t.updates.back());
        }
    }

    /// Each task's dependencies, in the order of what it waits for: counted into place, as a sort of all is most of the
    /// compilation of a long schedule.
    void flattenDependencies()
    {
        std::vector<std::int32_t> next(m_draft.tasks.size() + 1, 0);
        for (const auto &[task, on] : m_edges.inStep)
            ++next[task.index() + 1];
        for (const auto &[task, on] : m_edges.carried)
            ++next[task.index() + 1];
        std::partial_sum(next.begin(), next.end(), next.begin());
        m_made.ofTask.reserve(m_draft.tasks.size());
        for (std::size_t t = 0; t < m_draft.tasks.size(); ++t)
            m_made.ofTask.push_back({next[t], next[t + 1]});
        m_made.dependencies.resize(m_edges.inStep.size() + m_edges.carried.size());
        for (const auto &[task, on] : m_edges.inStep)
            m_made.dependencies[static_cast<std::size_t>(next[task.index()]++)] = {on};
        for (const auto &[task, on] : m_edges.carried)
            m_made.dependencies[static_cast<std::size_t>(next[task.index()]++)] = on;
        const auto dependencies = m_made.dependencies.begin();
        for (const program::Range &range : m_made.ofTask)
            if (range.last - range.first > 1)
                std::sort(dependencies + range.first, dependencies + range.last);
    }

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

    void appendPass(RankId rank, const PassStep &step)
    {
        const BodyTasks &t = m_draft.bodies[bodyOn(rank, step.stage)];
        const auto m = static_cast<std::size_t>(step.microBatch);
        const auto appendRun = [&](TaskId run) {
            for (const LateSum &late : t.lateSums)
                if (late.reader == run)
                    computeOrder(rank).push_back(late.update);
            computeOrder(rank).push_back(run);
            for (const RowTasks &rows : t.rows)
                if (rows.gradientDone == run)
                    collectBehind(rank, rows, run);
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

    /// Each pass stands behind the message that the pass before it sends.
    void waitForSends(RankId rank)
    {
        TaskId sent;
        for (const PassStep &step : m_in.ranks.at(rank).order) {
            const BodyTasks &t = m_draft.bodies[bodyOn(rank, step.stage)];
            const bool again = step.pass == Pass::Backward && !t.recompute.empty();
            const auto &passes = again        ? t.recompute
                : step.forward()              ? t.forward
                : step.pass == Pass::Backward ? t.backward
                                              : t.weights;
            m_edges.depend(firstOf(passes, step.microBatch), sent);
            sent = step.forward()             ? taskAt(t.sendActivation, step.microBatch)
                : step.pass == Pass::Backward ? taskAt(t.sendGradient, step.microBatch)
                                              : TaskId();
        }
    }

    [[nodiscard]] std::size_t bodyOn(RankId rank, std::int32_t stage) const
    {
        const std::vector<BodyId> &bodies = m_in.instances.ofRank[rank.index()];
        for (const BodyId b : bodies)
            if (m_in.instances[b].stage.value == stage)
                return b.index();
        return bodies.front().index();
    }

    /// The rank's last forward pass: with it the step's loss is known, and there is time left to agree on it.
    [[nodiscard]] TaskId lastForward(RankId rank) const
    {
        const std::vector<TaskId> &order = computeOrder(rank);
        const auto found = std::find_if(order.rbegin(), order.rend(),
                                        [this](TaskId id) { return m_draft.task(id).pass() == Pass::Forward; });
        return found == order.rend() ? TaskId() : *found;
    }

    /// The compute task behind which what @p exchange sums up is there.
    [[nodiscard]] TaskId completes(RankId rank, const BodyTasks &body, const Task &exchange) const
    {
        const StageParts &parts = m_in.parts[exchange.stage.index()];
        const BucketId bucket = exchange.as<program::Exchange>()->bucket;
        const auto run = parts.complete.find(m_in.buckets.at(bucket).entries.front().parameter);
        return run == parts.complete.end() ? lastUser(rank, bucket) : body.lastParts[run->second];
    }

    /// The last compute task of the stages on @p rank that have the parameters of bucket @p index.
    [[nodiscard]] TaskId lastUser(RankId rank, BucketId index) const
    {
        if (m_in.instances.ofRank[rank.index()].size() == 1)
            return computeOrder(rank).back();
        const std::string &parameter = m_in.buckets.at(index).entries.front().parameter;
        const auto uses = [&](TaskId id) {
            return m_in.owners.hasParameter(m_draft.task(id).stage.index(), parameter);
        };
        const auto found = std::find_if(computeOrder(rank).rbegin(), computeOrder(rank).rend(), uses);
        return found == computeOrder(rank).rend() ? computeOrder(rank).back() : *found;
    }

    std::vector<TaskId> &computeOrder(RankId rank) { return m_made.computeOrders[rank.index()]; }
    [[nodiscard]] const std::vector<TaskId> &computeOrder(RankId rank) const
    {
        return m_made.computeOrders[rank.index()];
    }

    const OrderInput &m_in;
    const TaskDraft &m_draft;
    Edges m_edges;
    TaskOrder m_made;
};

} // namespace

TaskOrder orderTasks(const OrderInput &in, const TaskDraft &draft, Edges edges)
{
    return Ordering(in, draft, std::move(edges)).order();
}

} // namespace planloom::compile
