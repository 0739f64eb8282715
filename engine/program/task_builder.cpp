// SPDX-License-Identifier: Apache-2.0
#include "engine/program/site.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace planloom::program {
namespace {

using trace::Kind;

/// The tasks of one rank, by what they are.
struct RankTasks {
    std::vector<TaskId> receiveActivation, forward, sendActivation; ///< per micro-batch; empty where the stage has no such end
    std::vector<TaskId> receiveGradient, recompute, backward, sendGradient;
    std::vector<TaskId> allReduce; ///< per bucket of this rank that several ranks hold
    TaskId optimizer;
};

/// Which lane each end of a stage uses.
struct BoundaryLanes {
    Lane activationIn, activationOut, gradientIn, gradientOut;
};

/// Full-duplex links send and receive at the same time. On half-duplex links both directions take turns on one lane; the two-level
/// rules know one resource per boundary (DAPPLE's network stage), so there each of a stage's two boundaries has a lane.
BoundaryLanes boundaryLanes(const cluster::Cluster &cluster)
{
    if (cluster.fullDuplex())
        return {Lane::Receive, Lane::Send, Lane::Receive, Lane::Send};
    if (cluster.commModel() == cluster::CommModel::TwoLevel)
        return {Lane::Receive, Lane::Send, Lane::Send, Lane::Receive};
    return {Lane::Send, Lane::Send, Lane::Send, Lane::Send};
}

class TaskBuilder {
public:
    explicit TaskBuilder(Compilation &all)
        : m_all(all), m_program(all.program), m_costs(*all.subject.costs), m_lanes(boundaryLanes(*all.subject.cluster)), m_tasks(all.sites.size())
    {
    }

    void build()
    {
        for (std::size_t r = 0; r < m_all.sites.size(); ++r) {
            const RankId rank(static_cast<std::int64_t>(r));
            addPasses(rank);
            addUpdate(rank);
            connect(rank);
        }
        flattenDependencies();
        groupTasks();
    }

private:
    TaskId add(RankId rank, Kind kind, Lane lane, Pass pass, std::int64_t microBatch, Seconds duration)
    {
        const TaskId id(static_cast<std::int64_t>(m_program.tasks.size()));
        Task task;
        task.kind = kind;
        task.lane = lane;
        task.pass = pass;
        task.rank = rank;
        task.stage = m_all.sites[rank.index()].stage;
        task.microBatch = static_cast<std::int32_t>(microBatch);
        task.body = m_program.ranks[rank.index()].bodies.front();
        task.duration = duration;
        m_program.tasks.push_back(task);
        m_program.ranks[rank.index()].tasks.push_back(id);
        return id;
    }

    void addPasses(RankId rank)
    {
        const RankSite &site = m_all.sites[rank.index()];
        RankTasks &tasks = m_tasks[rank.index()];
        const plan::Stage &stage = m_all.stageOf(site);
        const std::size_t here = site.stage.index();
        const std::size_t type = m_all.subject.cluster->device(stage.devices[site.replica]).type;
        const bool gradientIn = !m_all.isLast(site) && m_all.stages[here].returnsGradient();
        const bool gradientOut = !m_all.isFirst(site) && m_all.stages[here - 1].returnsGradient();
        for (std::int64_t m = 0; m < m_all.plan.microBatches; ++m) {
            const double samples = m_all.samples.slice(site, m);
            const Seconds forward = m_costs.forward(stage.firstLayer, stage.lastLayer, samples, type);
            const Seconds backward = m_costs.backward(stage.firstLayer, stage.lastLayer, samples, type);
            if (!m_all.isFirst(site))
                tasks.receiveActivation.push_back(add(rank, Kind::Receive, m_lanes.activationIn, Pass::Forward, m, transferTime(here, m, Pass::Forward)));
            tasks.forward.push_back(add(rank, Kind::Forward, Lane::Compute, Pass::Forward, m, forward));
            if (!m_all.isLast(site))
                tasks.sendActivation.push_back(add(rank, Kind::Send, m_lanes.activationOut, Pass::Forward, m, transferTime(here + 1, m, Pass::Forward)));
            if (gradientIn)
                tasks.receiveGradient.push_back(add(rank, Kind::Receive, m_lanes.gradientIn, Pass::Backward, m, transferTime(here + 1, m, Pass::Backward)));
            if (stage.recompute)
                tasks.recompute.push_back(add(rank, Kind::Recompute, Lane::Compute, Pass::Forward, m, forward));
            tasks.backward.push_back(add(rank, Kind::Backward, Lane::Compute, Pass::Backward, m, backward));
            if (gradientOut)
                tasks.sendGradient.push_back(add(rank, Kind::Send, m_lanes.gradientOut, Pass::Backward, m, transferTime(here, m, Pass::Backward)));
        }
    }

    void addUpdate(RankId rank)
    {
        const RankSite &site = m_all.sites[rank.index()];
        RankTasks &tasks = m_tasks[rank.index()];
        for (std::size_t b = 0; b < m_program.buckets.size(); ++b) {
            const Bucket &bucket = m_program.buckets[b];
            if (bucket.ranks.size() < 2 || !std::binary_search(bucket.ranks.begin(), bucket.ranks.end(), rank))
                continue;
            const TaskId id = add(rank, Kind::AllReduce, Lane::Collective, Pass::Backward, -1, allReduceTime(bucket));
            m_program.tasks[id.index()].bucket = static_cast<std::int32_t>(b);
            tasks.allReduce.push_back(id);
        }
        std::int64_t bytes = 0;
        for (const HeldTensor &parameter : m_all.stages[site.stage.index()].holdings().parameters)
            bytes += parameter.bytes;
        if (bytes == 0)
            return;
        const std::size_t type = m_all.subject.cluster->device(m_all.stageOf(site).devices[site.replica]).type;
        tasks.optimizer = add(rank, Kind::Optimizer, Lane::Compute, Pass::Backward, -1,
                              m_costs.optimizerStep(Bytes(bytes), m_all.plan.optimizer.stateTensors(), type));
    }

    /// A micro-batch's activations over the cut before stage @p after, or their gradients back.
    Seconds transferTime(std::size_t after, std::int64_t m, Pass pass)
    {
        const double samples = m_all.samples.microBatch(m);
        const auto [entry, isNew] = m_transferTimes.try_emplace(std::make_tuple(after, samples, pass));
        if (isNew) {
            const auto &before = m_all.plan.stages[after - 1].devices;
            const auto &behind = m_all.plan.stages[after].devices;
            const auto perSample = static_cast<double>(m_all.subject.layers().cutBytes(*m_all.subject.graph, m_all.plan.stages[after].firstLayer, 1).value());
            entry->second = pass == Pass::Forward ? m_costs.transfer(before, behind, perSample * samples) : m_costs.transfer(behind, before, perSample * samples);
        }
        return entry->second;
    }

    [[nodiscard]] Seconds allReduceTime(const Bucket &bucket) const
    {
        std::vector<DeviceId> devices;
        for (const RankId rank : bucket.ranks)
            devices.push_back(m_program.ranks[rank.index()].device);
        return m_costs.allReduce(devices, static_cast<double>(bucket.bytes));
    }

    // --- Dependencies ---------------------------------------------------------------------------------------------

    void depend(TaskId task, TaskId on)
    {
        if (task.valid() && on.valid())
            m_edges.emplace_back(task, on);
    }

    static TaskId taskAt(const std::vector<TaskId> &tasks, std::int64_t m) { return m >= 0 && !tasks.empty() ? tasks[static_cast<std::size_t>(m)] : TaskId(); }

    void connect(RankId rank)
    {
        const RankSite &site = m_all.sites[rank.index()];
        const RankTasks &t = m_tasks[rank.index()];
        const auto before = [&site](Area area, std::int64_t m) { return site.slotPlan.previous[static_cast<std::size_t>(area)][static_cast<std::size_t>(m)]; };
        for (std::int64_t m = 0; m < m_all.plan.microBatches; ++m) {
            depend(taskAt(t.forward, m), taskAt(t.receiveActivation, m));
            depend(taskAt(t.sendActivation, m), taskAt(t.forward, m));
            depend(taskAt(t.backward, m), taskAt(t.receiveGradient, m));
            depend(taskAt(t.sendGradient, m), taskAt(t.backward, m));
            // A slot is taken again only when whoever had it before is done with it.
            depend(taskAt(t.receiveActivation, m), taskAt(t.backward, before(Area::Inbox, m)));
            depend(taskAt(t.forward, m), taskAt(t.sendActivation, before(Area::Outbox, m)));
            depend(taskAt(t.receiveGradient, m), taskAt(t.backward, before(Area::GradientInbox, m)));
            depend(taskAt(t.receiveGradient, m), taskAt(t.sendGradient, before(Area::GradientInbox, m)));
            depend(taskAt(t.backward, m), taskAt(t.sendGradient, before(Area::GradientOutbox, m)));
        }
        connectOrder(m_program.ranks[rank.index()], site.order, t);
    }

    void connectOrder(Rank &rank, const std::vector<PassStep> &order, const RankTasks &t)
    {
        for (const PassStep &step : order) {
            if (!step.forward && !t.recompute.empty())
                rank.order.push_back(taskAt(t.recompute, step.microBatch));
            rank.order.push_back(taskAt(step.forward ? t.forward : t.backward, step.microBatch));
        }
        for (const TaskId reduce : t.allReduce) {
            depend(reduce, rank.order.back());
            depend(t.optimizer, reduce);
        }
        if (t.optimizer.valid())
            rank.order.push_back(t.optimizer);
    }

    void flattenDependencies()
    {
        std::sort(m_edges.begin(), m_edges.end());
        m_program.dependencies.reserve(m_edges.size());
        std::size_t next = 0;
        for (std::size_t t = 0; t < m_program.tasks.size(); ++t) {
            Task &task = m_program.tasks[t];
            task.firstDependency = static_cast<std::int32_t>(m_program.dependencies.size());
            for (; next < m_edges.size() && m_edges[next].first.index() == t; ++next)
                m_program.dependencies.push_back(m_edges[next].second);
            task.lastDependency = static_cast<std::int32_t>(m_program.dependencies.size());
        }
    }

    // --- Groups ---------------------------------------------------------------------------------------------------

    void addGroup(const std::vector<TaskId> &members)
    {
        if (members.empty())
            return;
        const auto index = static_cast<std::int32_t>(m_program.groups.size());
        const auto first = static_cast<std::int32_t>(m_program.groupMembers.size());
        for (const TaskId id : members) {
            m_program.tasks[id.index()].group = index;
            m_program.groupMembers.push_back(id);
        }
        m_program.groups.push_back({first, static_cast<std::int32_t>(m_program.groupMembers.size())});
    }

    void collect(std::size_t stage, std::vector<TaskId> RankTasks::*list, std::int64_t m, std::vector<TaskId> &members) const
    {
        for (const RankId rank : m_all.ranksOf(stage))
            if (const TaskId id = taskAt(m_tasks[rank.index()].*list, m); id.valid())
                members.push_back(id);
    }

    void groupTasks()
    {
        std::vector<TaskId> members;
        for (std::int64_t m = 0; m < m_all.plan.microBatches; ++m) {
            for (std::size_t s = 0; s + 1 < m_all.stages.size(); ++s) {
                members.clear();
                collect(s, &RankTasks::sendActivation, m, members);
                collect(s + 1, &RankTasks::receiveActivation, m, members);
                addGroup(members);
                members.clear();
                collect(s + 1, &RankTasks::sendGradient, m, members);
                collect(s, &RankTasks::receiveGradient, m, members);
                addGroup(members);
            }
        }
        std::vector<std::vector<TaskId>> perBucket(m_program.buckets.size());
        for (const RankTasks &tasks : m_tasks)
            for (const TaskId id : tasks.allReduce)
                perBucket[static_cast<std::size_t>(m_program.tasks[id.index()].bucket)].push_back(id);
        for (const auto &bucket : perBucket)
            addGroup(bucket);
    }

    Compilation &m_all;
    Program &m_program;
    const cost::CostModel &m_costs;
    BoundaryLanes m_lanes;
    std::vector<RankTasks> m_tasks; ///< per rank
    std::vector<std::pair<TaskId, TaskId>> m_edges; ///< (task, what it waits for)
    std::map<std::tuple<std::size_t, double, Pass>, Seconds> m_transferTimes;
};

} // namespace

void buildTasks(Compilation &all) { TaskBuilder(all).build(); }

} // namespace planloom::program
