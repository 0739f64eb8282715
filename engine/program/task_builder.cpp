// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/local_costs.h"
#include "engine/graph/operators.h"
#include "engine/program/parts.h"
#include "engine/program/site.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>

namespace planloom::program {
namespace {

using trace::Kind;

/// A pass of one micro-batch: its first and its last task, the same where nothing cuts it.
struct PassTasks {
    TaskId first, last;
    std::vector<TaskId> runs; ///< all on the compute lane, in order
};

/// The tasks of one rank, by what they are.
struct RankTasks {
    std::vector<PassTasks> forward, recompute, backward; ///< per micro-batch; empty where the stage has no such pass
    std::vector<TaskId> receiveActivation, sendActivation, receiveGradient, sendGradient;
    std::vector<TaskId> exchange; ///< of gradients, before the optimizer
    std::vector<TaskId> restore;  ///< of parameters, behind it
    TaskId optimizer;
};

/// How boxing cuts the passes of a stage, and what part of a pass's time each run takes.
struct StageParts {
    std::vector<PassPart> forward, backward;
    std::vector<double> forwardWeights, backwardWeights;
    std::shared_ptr<const cost::LocalCosts> costs; ///< of the stage's own operators, where the profile knows them; else null
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
        for (const StageModel &stage : m_all.stages)
            m_parts.push_back(partsOfStage(stage));
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

    /// Operations and traffic of a run in one measure: a byte of memory traffic weighs as much as ten operations on today's devices.
    static double weightOf(const graph::TrainingGraph &training, const PassPart &part)
    {
        constexpr double kOperationsPerByte = 10;
        double weight = 0;
        for (std::int32_t op = part.first; !part.boxing && op < part.last; ++op) {
            const graph::OpCostFigures cost = graph::figures(training.graph, OpId(op), 1);
            weight += cost.forward.value() + kOperationsPerByte * static_cast<double>(cost.forwardBytes.value());
        }
        return weight;
    }

    static std::vector<double> weights(const graph::TrainingGraph &training, const std::vector<PassPart> &parts)
    {
        std::vector<double> all(parts.size(), 1);
        if (parts.size() == 1)
            return all;
        double sum = 0;
        for (std::size_t i = 0; i < parts.size(); ++i)
            sum += all[i] = weightOf(training, parts[i]);
        for (double &weight : all)
            weight = sum > 0 ? weight / sum : 0;
        return all;
    }

    [[nodiscard]] StageParts partsOfStage(const StageModel &stage) const
    {
        if (!stage.training())
            return {{PassPart{}}, {PassPart{}}, {1}, {1}, nullptr};
        const auto forwardOps = static_cast<std::int32_t>(stage.training()->forwardOps);
        const auto allOps = static_cast<std::int32_t>(stage.training()->graph.ops().size());
        StageParts parts{partsOf(*stage.training(), 0, forwardOps), partsOf(*stage.training(), forwardOps, allOps), {}, {}, nullptr};
        if (m_costs.profile() && !m_costs.profile()->kernels.empty()) {
            auto kernels = std::make_shared<const cost::LocalCosts>(m_costs, stage.training()->graph);
            parts.costs = kernels->measured() ? std::move(kernels) : nullptr;
        }
        parts.forwardWeights = weights(*stage.training(), parts.forward);
        parts.backwardWeights = weights(*stage.training(), parts.backward);
        return parts;
    }

    /// A run of operators: what the profile says of them, or @p share, its part of the pass as the model's layers have it.
    Seconds runTime(const RankSite &site, std::int64_t m, const PassPart &part, Seconds share)
    {
        const StageParts &stage = m_parts[site.stage.index()];
        if (!stage.costs)
            return share;
        const double samples = m_all.samples.slice(site, m);
        const std::size_t type = m_all.subject.cluster->device(m_all.stageOf(site).devices[site.device]).type;
        const auto [entry, isNew] = m_runTimes.try_emplace(std::make_tuple(site.stage.index(), part.first, part.last, samples, type));
        if (isNew)
            entry->second = stage.costs->seconds(static_cast<std::size_t>(part.first), static_cast<std::size_t>(part.last), samples, type) + m_costs.taskOverhead(type);
        return entry->second;
    }

    /// One pass of one micro-batch: its runs and the boxing between them.
    PassTasks addPass(RankId rank, Kind kind, Pass pass, std::int64_t m, Seconds duration)
    {
        const RankSite &site = m_all.sites[rank.index()];
        const StageParts &stage = m_parts[site.stage.index()];
        const std::vector<PassPart> &parts = pass == Pass::Backward ? stage.backward : stage.forward;
        const std::vector<double> &weights = pass == Pass::Backward ? stage.backwardWeights : stage.forwardWeights;
        PassTasks tasks;
        std::vector<TaskId> made;
        std::int16_t run = 0;
        std::int16_t box = 0;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const PassPart &part = parts[i];
            const TaskId id = part.boxing ? addBoxing(rank, pass, m, part.first, ++box) : add(rank, kind, Lane::Compute, pass, m, runTime(site, m, part, duration * weights[i]));
            Task &task = m_program.tasks[id.index()];
            task.firstOp = part.first;
            task.lastOp = part.last;
            made.push_back(id);
            for (const std::size_t before : part.waitsFor)
                depend(id, made[before]);
            if (part.boxing) {
                depend(id, tasks.runs.back());
                continue;
            }
            task.part = run++;
            task.opens = i == 0;
            task.closes = i + 1 == parts.size();
            tasks.runs.push_back(id);
        }
        tasks.first = tasks.runs.front();
        tasks.last = tasks.runs.back();
        return tasks;
    }

    TaskId addBoxing(RankId rank, Pass pass, std::int64_t m, std::int32_t op, std::int16_t number)
    {
        const RankSite &site = m_all.sites[rank.index()];
        const StageModel &stage = m_all.stages[site.stage.index()];
        const graph::Graph &graph = stage.training()->graph;
        const graph::Op &boxing = graph.ops()[static_cast<std::size_t>(op)];
        const Kind kind = kindOf(boxing.type);
        const std::int32_t team = teamOf(lineOf(stage, site.device, boxing));
        const auto samples = static_cast<std::int64_t>(std::ceil(m_all.samples.slice(site, m)));
        const std::int64_t whole = graph.tensor(kind == Kind::AllGather ? boxing.outputs.front() : boxing.inputs.front()).bytes(samples).value();
        const TaskId id = add(rank, kind, Lane::Collective, pass, m, collectiveTime(kind, team, whole));
        Task &task = m_program.tasks[id.index()];
        task.part = number;
        task.team = team;
        task.bytes = sentBytes(kind, team, whole, rank, graph.tensor(boxing.inputs.front()).type);
        m_boxing[{team, pass, m, op}].push_back(id);
        return id;
    }

    static Kind kindOf(std::string_view type)
    {
        return type == "AllGather" ? Kind::AllGather : type == "ReduceScatter" ? Kind::ReduceScatter : type == "AllToAll" ? Kind::AllToAll : Kind::AllReduce;
    }

    /// The ranks that boxing on @p device of the stage's mesh talks to.
    static std::vector<RankId> lineOf(const StageModel &stage, std::size_t device, const graph::Op &boxing)
    {
        std::vector<std::int64_t> over = boxing.integers("mesh_dims");
        if (over.empty())
            over.push_back(boxing.integer("mesh_dim"));
        std::vector<RankId> ranks;
        const std::vector<int> own = stage.mesh().coordinates(static_cast<int>(device));
        for (int other = 0; other < stage.mesh().devices(); ++other) {
            const std::vector<int> theirs = stage.mesh().coordinates(other);
            bool same = true;
            for (std::size_t d = 0; d < own.size(); ++d)
                same = same && (own[d] == theirs[d] || std::find(over.begin(), over.end(), static_cast<std::int64_t>(d)) != over.end());
            if (same)
                ranks.push_back(stage.holdings().ranks[static_cast<std::size_t>(other)]);
        }
        return ranks;
    }

    std::int32_t teamOf(std::vector<RankId> ranks)
    {
        if (m_teams.empty())
            for (std::size_t t = 0; t < m_program.teams.size(); ++t)
                m_teams.emplace(m_program.teams[t].ranks, static_cast<std::int32_t>(t));
        const auto [entry, isNew] = m_teams.try_emplace(ranks, static_cast<std::int32_t>(m_program.teams.size()));
        if (isNew)
            m_program.teams.push_back({std::move(ranks)});
        return entry->second;
    }

    /// A device's share of a pass, remembered: micro-batches and ranks are alike.
    double share(const RankSite &site, bool backward, double samples, std::size_t type)
    {
        const auto [entry, isNew] = m_shares.try_emplace(std::make_tuple(site.stage.index(), backward, samples, type));
        if (isNew)
            entry->second = m_all.stages[site.stage.index()].share(backward, samples, type);
        return entry->second;
    }

    void addPasses(RankId rank)
    {
        const RankSite &site = m_all.sites[rank.index()];
        RankTasks &tasks = m_tasks[rank.index()];
        const plan::Stage &stage = m_all.stageOf(site);
        const std::size_t here = site.stage.index();
        const std::size_t type = m_all.subject.cluster->device(stage.devices[site.device]).type;
        const bool gradientIn = !m_all.isLast(site) && m_all.stages[here].returnsGradient();
        const bool gradientOut = !m_all.isFirst(site) && m_all.stages[here - 1].returnsGradient();
        for (std::int64_t m = 0; m < m_all.plan.microBatches; ++m) {
            const double samples = m_all.samples.slice(site, m);
            const Seconds forward = m_costs.forward(stage.firstLayer, stage.lastLayer, samples, type) * share(site, false, samples, type);
            const Seconds backward = m_costs.backward(stage.firstLayer, stage.lastLayer, samples, type) * share(site, true, samples, type);
            if (!m_all.isFirst(site))
                tasks.receiveActivation.push_back(add(rank, Kind::Receive, m_lanes.activationIn, Pass::Forward, m, transferTime(here, m, Pass::Forward)));
            tasks.forward.push_back(addPass(rank, Kind::Forward, Pass::Forward, m, forward));
            if (!m_all.isLast(site))
                tasks.sendActivation.push_back(add(rank, Kind::Send, m_lanes.activationOut, Pass::Forward, m, transferTime(here + 1, m, Pass::Forward)));
            if (gradientIn)
                tasks.receiveGradient.push_back(add(rank, Kind::Receive, m_lanes.gradientIn, Pass::Backward, m, transferTime(here + 1, m, Pass::Backward)));
            if (m_all.stages[here].runsAgain())
                tasks.recompute.push_back(addPass(rank, Kind::Recompute, Pass::Recompute, m, forward));
            tasks.backward.push_back(addPass(rank, Kind::Backward, Pass::Backward, m, backward));
            if (gradientOut)
                tasks.sendGradient.push_back(add(rank, Kind::Send, m_lanes.gradientOut, Pass::Backward, m, transferTime(here, m, Pass::Backward)));
        }
    }

    TaskId addExchange(RankId rank, Kind kind, std::int32_t index)
    {
        const Bucket &bucket = m_program.buckets[static_cast<std::size_t>(index)];
        const std::int64_t bytes = kind == Kind::AllGather ? bucket.elements * graph::sizeOf(bucket.type) : bucket.bytes();
        const TaskId id = add(rank, kind, Lane::Collective, Pass::Backward, -1, collectiveTime(kind, bucket.team, bytes));
        Task &task = m_program.tasks[id.index()];
        task.bucket = index;
        task.team = bucket.team;
        task.bytes = sentBytes(kind, bucket.team, bytes, rank, kind == Kind::AllGather ? bucket.type : graph::DType::F32);
        return id;
    }

    void addUpdate(RankId rank)
    {
        const RankSite &site = m_all.sites[rank.index()];
        RankTasks &tasks = m_tasks[rank.index()];
        std::int64_t bytes = 0;
        const std::vector<std::int32_t> mine = bucketsOf(m_program, rank);
        for (const std::int32_t index : mine) {
            const Bucket &bucket = m_program.buckets[static_cast<std::size_t>(index)];
            const auto members = static_cast<std::int64_t>(m_program.teams[static_cast<std::size_t>(bucket.team)].ranks.size());
            bytes += bucket.zero > 0 ? bucket.bytes() / members : bucket.bytes();
            if (members > 1 && bucket.zero < 2)
                tasks.exchange.push_back(addExchange(rank, bucket.zero == 0 ? Kind::AllReduce : Kind::ReduceScatter, index));
        }
        if (bytes == 0)
            return;
        const std::size_t type = m_all.subject.cluster->device(m_all.stageOf(site).devices[site.device]).type;
        tasks.optimizer = add(rank, Kind::Optimizer, Lane::Compute, Pass::Backward, -1,
                              m_costs.optimizerStep(Bytes(bytes), m_all.plan.optimizer.stateTensors(), type));
        for (const std::int32_t index : mine) {
            const Bucket &bucket = m_program.buckets[static_cast<std::size_t>(index)];
            if (bucket.zero == 1 || bucket.zero == 2)
                tasks.restore.push_back(addExchange(rank, Kind::AllGather, index));
        }
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

    /// @p whole: bytes of what is reduced, gathered or exchanged, all parts together.
    [[nodiscard]] Seconds collectiveTime(Kind kind, std::int32_t team, std::int64_t whole) const
    {
        std::vector<DeviceId> devices;
        for (const RankId rank : m_program.teams[static_cast<std::size_t>(team)].ranks)
            devices.push_back(m_program.ranks[rank.index()].device);
        return m_costs.collective(collectiveOf(kind), devices, static_cast<double>(bytesOfCall(kind, devices.size(), whole)));
    }

    static cost::Collective collectiveOf(Kind kind)
    {
        switch (kind) {
        case Kind::AllGather:
            return cost::Collective::AllGather;
        case Kind::ReduceScatter:
            return cost::Collective::ReduceScatter;
        case Kind::AllToAll:
            return cost::Collective::AllToAll;
        default:
            return cost::Collective::AllReduce;
        }
    }

    /// The bytes that cost/collectives.h counts by, of a collective on @p whole bytes, all parts together.
    static std::int64_t bytesOfCall(Kind kind, std::size_t members, std::int64_t whole)
    {
        return kind == Kind::AllReduce ? whole : whole / static_cast<std::int64_t>(members);
    }

    /// What @p rank sends, as the executor's collectives do.
    [[nodiscard]] std::int64_t sentBytes(Kind kind, std::int32_t team, std::int64_t whole, RankId rank, graph::DType type) const
    {
        const Team &members = m_program.teams[static_cast<std::size_t>(team)];
        const std::int64_t bytes = bytesOfCall(kind, members.ranks.size(), whole);
        return cost::collectiveBytesOf(collectiveOf(kind), bytes, static_cast<int>(members.ranks.size()), static_cast<int>(members.position(rank)), graph::sizeOf(type));
    }

    // --- Dependencies ---------------------------------------------------------------------------------------------

    void depend(TaskId task, TaskId on)
    {
        if (task.valid() && on.valid())
            m_edges.emplace_back(task, on);
    }

    static TaskId taskAt(const std::vector<TaskId> &tasks, std::int64_t m) { return m >= 0 && !tasks.empty() ? tasks[static_cast<std::size_t>(m)] : TaskId(); }

    static TaskId firstOf(const std::vector<PassTasks> &passes, std::int64_t m) { return passes[static_cast<std::size_t>(m)].first; }
    static TaskId lastOf(const std::vector<PassTasks> &passes, std::int64_t m) { return m >= 0 ? passes[static_cast<std::size_t>(m)].last : TaskId(); }

    void connect(RankId rank)
    {
        const RankSite &site = m_all.sites[rank.index()];
        const RankTasks &t = m_tasks[rank.index()];
        const auto before = [&site](Area area, std::int64_t m) { return site.slotPlan.previous[static_cast<std::size_t>(area)][static_cast<std::size_t>(m)]; };
        for (std::int64_t m = 0; m < m_all.plan.microBatches; ++m) {
            depend(firstOf(t.forward, m), taskAt(t.receiveActivation, m));
            depend(taskAt(t.sendActivation, m), lastOf(t.forward, m));
            depend(firstOf(t.backward, m), taskAt(t.receiveGradient, m));
            depend(taskAt(t.sendGradient, m), lastOf(t.backward, m));
            // A slot is taken again only when whoever had it before is done with it.
            depend(taskAt(t.receiveActivation, m), lastOf(t.backward, before(Area::Inbox, m)));
            depend(firstOf(t.forward, m), taskAt(t.sendActivation, before(Area::Outbox, m)));
            depend(taskAt(t.receiveGradient, m), lastOf(t.backward, before(Area::GradientInbox, m)));
            depend(taskAt(t.receiveGradient, m), taskAt(t.sendGradient, before(Area::GradientInbox, m)));
            depend(firstOf(t.backward, m), taskAt(t.sendGradient, before(Area::GradientOutbox, m)));
        }
        connectOrder(m_program.ranks[rank.index()], site.order, t);
    }

    void connectOrder(Rank &rank, const std::vector<PassStep> &order, const RankTasks &t)
    {
        const auto append = [&rank](const PassTasks &pass) { rank.order.insert(rank.order.end(), pass.runs.begin(), pass.runs.end()); };
        for (const PassStep &step : order) {
            const auto m = static_cast<std::size_t>(step.microBatch);
            if (!step.forward && !t.recompute.empty())
                append(t.recompute[m]);
            append(step.forward ? t.forward[m] : t.backward[m]);
        }
        for (const TaskId exchange : t.exchange) {
            depend(exchange, rank.order.back());
            depend(t.optimizer, exchange);
        }
        if (t.optimizer.valid())
            rank.order.push_back(t.optimizer);
        for (const TaskId restore : t.restore)
            depend(restore, t.optimizer);
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
        auto restores = perBucket;
        for (const RankTasks &tasks : m_tasks) {
            for (const TaskId id : tasks.exchange)
                perBucket[static_cast<std::size_t>(m_program.tasks[id.index()].bucket)].push_back(id);
            for (const TaskId id : tasks.restore)
                restores[static_cast<std::size_t>(m_program.tasks[id.index()].bucket)].push_back(id);
        }
        for (const auto *exchanges : {&perBucket, &restores})
            for (const auto &bucket : *exchanges)
                addGroup(bucket);
        for (const auto &[key, tasks] : m_boxing)
            addGroup(tasks);
    }

    Compilation &m_all;
    Program &m_program;
    const cost::CostModel &m_costs;
    BoundaryLanes m_lanes;
    std::vector<RankTasks> m_tasks; ///< per rank
    std::vector<StageParts> m_parts; ///< per stage
    std::map<std::vector<RankId>, std::int32_t> m_teams;
    std::map<std::tuple<std::size_t, bool, double, std::size_t>, double> m_shares; ///< by stage, pass, samples, type of device
    std::map<std::tuple<std::int32_t, Pass, std::int64_t, std::int32_t>, std::vector<TaskId>> m_boxing; ///< by team, pass, micro-batch, operator
    std::vector<std::pair<TaskId, TaskId>> m_edges; ///< (task, what it waits for)
    std::map<std::tuple<std::size_t, double, Pass>, Seconds> m_transferTimes;
    std::map<std::tuple<std::size_t, std::int32_t, std::int32_t, double, std::size_t>, Seconds> m_runTimes; ///< by stage, operators, samples and device type
};

} // namespace

void buildTasks(Compilation &all) { TaskBuilder(all).build(); }

} // namespace planloom::program
