// SPDX-License-Identifier: Apache-2.0
#include "engine/program/site.h"
#include "engine/program/stage_parts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace planloom::program {
namespace {

using trace::Kind;

/// A pass of one micro-batch: its first and its last task, the same where nothing cuts it.
struct PassTasks {
    TaskId first, last;
    std::vector<TaskId> runs; ///< all on the compute lane, in order
};

/// The tasks of one body, by what they are.
struct SiteTasks {
    std::vector<PassTasks> forward, recompute, backward, weights; ///< per micro-batch; empty where the stage has no such pass
    std::vector<TaskId> receiveActivation, sendActivation, receiveGradient, sendGradient;
    std::vector<TaskId> lastParts; ///< of the last pass that makes gradients of parameters, runs and boxing
    std::vector<TaskId> exchange; ///< of gradients, before the optimizer
    std::vector<TaskId> restore;  ///< of parameters, behind it
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
        m_parts = partsOfStages(m_all);
        for (std::size_t site = 0; site < m_all.sites.size(); ++site) {
            addPasses(site);
            addUpdate(site);
        }
        handOver();
        for (std::size_t site = 0; site < m_all.sites.size(); ++site)
            connect(site);
        for (std::size_t rank = 0; rank < m_program.ranks.size(); ++rank)
            connectOrder(RankId(static_cast<std::int64_t>(rank)));
        flattenDependencies();
        groupTasks();
    }

private:
    TaskId add(std::size_t site, Kind kind, Lane lane, Pass pass, std::int64_t microBatch, Seconds duration)
    {
        const RankId rank = m_all.sites[site].rank;
        const TaskId id(static_cast<std::int64_t>(m_program.tasks.size()));
        Task task;
        task.kind = kind;
        task.lane = lane;
        task.pass = pass;
        task.rank = rank;
        task.stage = m_all.sites[site].stage;
        task.microBatch = static_cast<std::int32_t>(microBatch);
        task.body = static_cast<std::int32_t>(site);
        task.duration = duration;
        m_program.tasks.push_back(task);
        m_program.ranks[rank.index()].tasks.push_back(id);
        return id;
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
    PassTasks addPass(std::size_t index, Kind kind, Pass pass, std::int64_t m, Seconds duration)
    {
        const RankSite &site = m_all.sites[index];
        const StageParts &stage = m_parts[site.stage.index()];
        const bool last = !stage.last.empty() && m == lastMicroBatch(site) && pass == (m_all.splits(site.stage.index()) ? Pass::WeightGradient : Pass::Backward);
        const std::vector<PassPart> &parts = last ? stage.last : pass == Pass::Backward ? stage.backward : pass == Pass::WeightGradient ? stage.weights : stage.forward;
        const std::vector<double> &shares =
            last ? stage.lastShares : pass == Pass::Backward ? stage.backwardShares : pass == Pass::WeightGradient ? stage.weightShares : stage.forwardShares;
        PassTasks tasks;
        std::vector<TaskId> made;
        std::int16_t run = 0;
        std::int16_t box = 0;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const PassPart &part = parts[i];
            const TaskId id = part.boxing ? addBoxing(index, pass, m, part.first, ++box)
                                          : add(index, kind, Lane::Compute, pass, m, runTime(site, m, part, duration * shares[i]));
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
        if (last)
            m_tasks[index].lastParts = std::move(made);
        return tasks;
    }

    /// The micro-batch whose passes over the stage come last.
    [[nodiscard]] std::int64_t lastMicroBatch(const RankSite &site) const
    {
        const std::vector<PassStep> &order = m_all.orders[site.rank.index()];
        const auto found = std::find_if(order.rbegin(), order.rend(), [&](const PassStep &step) { return step.stage == site.stage.value; });
        return found == order.rend() ? -1 : found->microBatch;
    }

    TaskId addBoxing(std::size_t index, Pass pass, std::int64_t m, std::int32_t op, std::int16_t number)
    {
        const RankSite &site = m_all.sites[index];
        const Boxing &boxing = m_parts[site.stage.index()].boxing.at(op);
        const std::int32_t team = m_all.teams->teamOf(boxing.set, site.rank);
        const auto samples = static_cast<std::int64_t>(std::ceil(m_all.samples.slice(site, m)));
        const std::int64_t whole = m_all.stages[site.stage.index()].training()->graph.tensor(boxing.whole).bytes(samples).value();
        const TaskId id = add(index, boxing.kind, Lane::Collective, pass, m, collectiveTime(boxing.kind, team, whole));
        Task &task = m_program.tasks[id.index()];
        task.part = number;
        task.team = team;
        task.bytes = sentBytes(boxing.kind, team, whole, site.rank, boxing.type);
        m_boxing.push_back({{site.stage.value, team, pass, m, op}, id});
        return id;
    }

    /// A device's share of a pass over the stage's layers, remembered: micro-batches and ranks are alike. Nothing where each operator has its time.
    Seconds layersTime(const RankSite &site, bool backward, double samples, std::size_t type)
    {
        if (m_parts[site.stage.index()].costs)
            return Seconds(0);
        const auto [entry, isNew] = m_layersTimes.try_emplace(std::make_tuple(site.stage.index(), backward, samples, type));
        if (isNew) {
            const plan::Stage &stage = m_all.stageOf(site);
            const Seconds whole = backward ? m_costs.backward(stage.firstLayer, stage.lastLayer, samples, type) : m_costs.forward(stage.firstLayer, stage.lastLayer, samples, type);
            entry->second = whole * m_all.stages[site.stage.index()].share(backward, samples, type);
        }
        return entry->second;
    }

    void addPasses(std::size_t index)
    {
        const RankSite &site = m_all.sites[index];
        SiteTasks &tasks = m_tasks[index];
        const plan::Stage &stage = m_all.stageOf(site);
        const std::size_t here = site.stage.index();
        const std::size_t type = m_all.subject.cluster->device(stage.devices[site.device]).type;
        const bool gradientIn = !m_all.isLast(site) && m_all.stages[here].returnsGradient();
        const bool gradientOut = !m_all.isFirst(site) && m_all.stages[here - 1].returnsGradient() && !m_all.staysOnDevice(here - 1);
        const bool activationOut = !m_all.isLast(site) && !m_all.staysOnDevice(here);
        for (std::int64_t m = 0; m < m_all.plan.microBatches; ++m) {
            const double samples = m_all.samples.slice(site, m);
            const Seconds forward = layersTime(site, false, samples, type);
            const Seconds backward = layersTime(site, true, samples, type);
            if (!m_all.isFirst(site))
                tasks.receiveActivation.push_back(add(index, Kind::Receive, m_lanes.activationIn, Pass::Forward, m, transferTime(here, m, Pass::Forward)));
            tasks.forward.push_back(addPass(index, Kind::Forward, Pass::Forward, m, forward));
            if (activationOut)
                tasks.sendActivation.push_back(add(index, Kind::Send, m_lanes.activationOut, Pass::Forward, m, transferTime(here + 1, m, Pass::Forward)));
            if (gradientIn)
                tasks.receiveGradient.push_back(add(index, Kind::Receive, m_lanes.gradientIn, Pass::Backward, m, transferTime(here + 1, m, Pass::Backward)));
            if (m_all.stages[here].runsAgain())
                tasks.recompute.push_back(addPass(index, Kind::Recompute, Pass::Recompute, m, forward));
            tasks.backward.push_back(addPass(index, Kind::Backward, Pass::Backward, m, backward));
            if (gradientOut)
                tasks.sendGradient.push_back(add(index, Kind::Send, m_lanes.gradientOut, Pass::Backward, m, transferTime(here, m, Pass::Backward)));
            if (m_all.splits(here))
                tasks.weights.push_back(addPass(index, Kind::WeightGradient, Pass::WeightGradient, m, backward));
        }
    }

    /// Between stages on the same devices one task does both: what receives takes it from where it was made.
    void handOver()
    {
        for (std::size_t stage = 0; stage < m_all.stages.size(); ++stage) {
            const bool stays = m_all.staysOnDevice(stage);
            for (std::size_t i = 0; stays && i < m_all.sitesOf[stage].size(); ++i) {
                SiteTasks &here = m_tasks[m_all.sitesOf[stage][i]];
                SiteTasks &next = m_tasks[m_all.sitesOf[stage + 1][i]];
                here.sendActivation = next.receiveActivation;
                next.sendGradient = here.receiveGradient;
            }
        }
    }

    TaskId addExchange(std::size_t site, Kind kind, std::int32_t index)
    {
        const Bucket &bucket = m_program.buckets[static_cast<std::size_t>(index)];
        const std::int64_t bytes = kind == Kind::AllGather ? bucket.elements * graph::sizeOf(bucket.type) : bucket.bytes();
        const TaskId id = add(site, kind, Lane::Collective, Pass::Backward, -1, exchangeTime(m_all.sites[site].stage, kind, bucket.team, bytes));
        Task &task = m_program.tasks[id.index()];
        task.bucket = index;
        task.team = bucket.team;
        task.bytes = sentBytes(kind, bucket.team, bytes, m_all.sites[site].rank, kind == Kind::AllGather ? bucket.type : graph::DType::F32);
        return id;
    }

    void addUpdate(std::size_t at)
    {
        const RankSite &site = m_all.sites[at];
        SiteTasks &tasks = m_tasks[at];
        std::int64_t bytes = 0;
        const std::vector<std::int32_t> mine = m_all.bucketsAt(at);
        for (const std::int32_t index : mine) {
            const Bucket &bucket = m_program.buckets[static_cast<std::size_t>(index)];
            const auto members = static_cast<std::int64_t>(m_program.teams[static_cast<std::size_t>(bucket.team)].size());
            bytes += bucket.zero > 0 ? bucket.bytes() / members : bucket.bytes();
            if (members > 1 && bucket.zero < 2)
                tasks.exchange.push_back(addExchange(at, bucket.zero == 0 ? Kind::AllReduce : Kind::ReduceScatter, index));
        }
        if (bytes == 0)
            return;
        const std::size_t type = m_all.subject.cluster->device(m_all.stageOf(site).devices[site.device]).type;
        tasks.optimizer = add(at, Kind::Optimizer, Lane::Compute, Pass::Backward, -1,
                              m_costs.optimizerStep(Bytes(bytes), m_all.plan.optimizer.stateTensors(), type));
        for (const std::int32_t index : mine) {
            const Bucket &bucket = m_program.buckets[static_cast<std::size_t>(index)];
            if (bucket.zero == 1 || bucket.zero == 2)
                tasks.restore.push_back(addExchange(at, Kind::AllGather, index));
        }
    }

    /// A micro-batch's activations over the cut before stage @p after, or their gradients back.
    Seconds transferTime(std::size_t after, std::int64_t m, Pass pass)
    {
        const double samples = m_all.samples.microBatch(m);
        const auto [entry, isNew] = m_transferTimes.try_emplace(std::make_tuple(after, samples, pass));
        if (isNew) {
            const auto perSample = static_cast<double>(m_all.subject.layers().cutBytes(*m_all.subject.graph, m_all.plan.stages[after].firstLayer, 1).value());
            entry->second = m_all.staysOnDevice(after - 1) ? copyTime(m_all.plan.stages[after].devices, perSample * samples) : crossingTime(after, perSample * samples, pass);
        }
        return entry->second;
    }

    /// From one side of the cut to the other: as long as over another cut whose devices lie alike.
    Seconds crossingTime(std::size_t after, double bytes, Pass pass)
    {
        const auto &before = m_all.plan.stages[after - 1].devices;
        const auto &behind = m_all.plan.stages[after].devices;
        const auto [shape, isNewCut] = m_cutShapes.try_emplace(after);
        if (isNewCut) {
            std::vector<DeviceId> both = before;
            both.insert(both.end(), behind.begin(), behind.end());
            shape->second = m_all.shapes.of(both);
        }
        const auto [entry, isNew] = m_crossingTimes.try_emplace(std::make_tuple(shape->second, before.size(), bytes, pass));
        if (isNew)
            entry->second = pass == Pass::Forward ? m_costs.transfer(before, behind, bytes) : m_costs.transfer(behind, before, bytes);
        return entry->second;
    }

    /// Reads and writes @p bytes, which @p devices hold a part of each, in their own memory.
    [[nodiscard]] Seconds copyTime(const std::vector<DeviceId> &devices, double bytes) const
    {
        double slowest = 0;
        for (const DeviceId device : devices)
            if (const double bandwidth = m_all.subject.cluster->typeOf(device).memoryBandwidth; bandwidth > 0)
                slowest = std::max(slowest, 2 * bytes / static_cast<double>(devices.size()) / bandwidth);
        return Seconds(slowest);
    }

    /// @p whole: bytes of what is reduced, gathered or exchanged, all parts together.
    Seconds collectiveTime(Kind kind, std::int32_t team, std::int64_t whole)
    {
        const auto [entry, isNew] = m_collectiveTimes.try_emplace(std::make_tuple(kind, m_all.teams->shape(team), whole));
        if (isNew) {
            const std::vector<DeviceId> &devices = m_program.teams[static_cast<std::size_t>(team)].devices;
            entry->second = m_costs.collective(collectiveOf(kind), devices, static_cast<double>(bytesOfCall(kind, devices.size(), whole)));
        }
        return entry->second;
    }

    /// The same after the last micro-batch, when all groups of replicas of a tensor-parallel stage exchange at once.
    Seconds exchangeTime(StageId stage, Kind kind, std::int32_t team, std::int64_t whole)
    {
        const auto [entry, isNew] = m_exchangeTimes.try_emplace(std::make_tuple(stage, kind, team, whole));
        if (isNew) {
            const auto [known, isFirst] = m_replicaGroups.try_emplace({stage, team});
            if (isFirst)
                known->second = replicaGroups(stage, m_program.teams[static_cast<std::size_t>(team)].devices);
            const auto &groups = known->second;
            entry->second = groups.size() < 2 ? collectiveTime(kind, team, whole)
                                              : m_costs.collectiveAtOnce(collectiveOf(kind), groups, static_cast<double>(bytesOfCall(kind, groups.front().size(), whole)));
        }
        return entry->second;
    }

    /// For each shard of the stage the devices that hold it, if @p own is one of them; else nothing.
    [[nodiscard]] std::vector<std::vector<DeviceId>> replicaGroups(StageId id, std::vector<DeviceId> own) const
    {
        const plan::Stage &stage = m_all.plan.stages[id.index()];
        std::vector<std::vector<DeviceId>> groups(stage.shards());
        for (std::size_t d = 0; d < stage.devices.size(); ++d)
            groups[d % stage.shards()].push_back(stage.devices[d]);
        std::sort(own.begin(), own.end());
        for (std::vector<DeviceId> &group : groups)
            std::sort(group.begin(), group.end());
        return std::find(groups.begin(), groups.end(), own) != groups.end() ? groups : std::vector<std::vector<DeviceId>>{};
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
        const std::int64_t bytes = bytesOfCall(kind, members.size(), whole);
        std::size_t position = members.position(rank);
        if (members.ranks.size() < members.size()) { // folded
            const DeviceId device = m_program.ranks[rank.index()].device;
            position = static_cast<std::size_t>(std::find(members.devices.begin(), members.devices.end(), device) - members.devices.begin());
        }
        return cost::collectiveBytesOf(collectiveOf(kind), bytes, static_cast<int>(members.size()), static_cast<int>(position), graph::sizeOf(type));
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

    void connect(std::size_t index)
    {
        const RankSite &site = m_all.sites[index];
        const SiteTasks &t = m_tasks[index];
        const auto before = [&site](Area area, std::int64_t m) { return site.slotPlan.previous[static_cast<std::size_t>(area)][static_cast<std::size_t>(m)]; };
        const std::vector<PassTasks> &closing = t.weights.empty() ? t.backward : t.weights; // after it nothing of a micro-batch is kept
        for (std::int64_t m = 0; m < m_all.plan.microBatches; ++m) {
            depend(firstOf(t.forward, m), taskAt(t.receiveActivation, m));
            depend(taskAt(t.sendActivation, m), lastOf(t.forward, m));
            depend(firstOf(t.backward, m), taskAt(t.receiveGradient, m));
            depend(taskAt(t.sendGradient, m), lastOf(t.backward, m));
            // A slot is taken again only when whoever had it before is done with it.
            depend(taskAt(t.receiveActivation, m), lastOf(closing, before(Area::Inbox, m)));
            depend(firstOf(t.forward, m), taskAt(t.sendActivation, before(Area::Outbox, m)));
            depend(taskAt(t.receiveGradient, m), lastOf(closing, before(Area::GradientInbox, m)));
            depend(taskAt(t.receiveGradient, m), taskAt(t.sendGradient, before(Area::GradientInbox, m)));
            depend(firstOf(t.backward, m), taskAt(t.sendGradient, before(Area::GradientOutbox, m)));
        }
    }

    void connectOrder(RankId id)
    {
        Rank &rank = m_program.ranks[id.index()];
        for (const PassStep &step : m_all.orders[id.index()])
            appendPass(rank, step);
        std::vector<TaskId> exchanges;
        for (const std::int32_t b : rank.bodies) {
            for (const TaskId exchange : m_tasks[static_cast<std::size_t>(b)].exchange) {
                depend(exchange, completes(rank, m_tasks[static_cast<std::size_t>(b)], m_program.tasks[exchange.index()]));
                exchanges.push_back(exchange);
            }
        }
        for (const std::int32_t b : rank.bodies) {
            const SiteTasks &t = m_tasks[static_cast<std::size_t>(b)];
            if (t.optimizer.valid())
                rank.order.push_back(t.optimizer);
            for (const TaskId exchange : exchanges) // all of them, as the length of a gradient is that of all
                depend(t.optimizer, exchange);
            for (const TaskId restore : t.restore)
                depend(restore, t.optimizer);
        }
    }

    void appendPass(Rank &rank, const PassStep &step)
    {
        const SiteTasks &t = m_tasks[siteOn(rank, step.stage)];
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
        const StageParts &parts = m_parts[exchange.stage.index()];
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

    void collect(std::size_t stage, std::vector<TaskId> SiteTasks::*list, std::int64_t m, std::vector<TaskId> &members) const
    {
        for (const std::size_t site : m_all.sitesOf[stage])
            if (const TaskId id = taskAt(m_tasks[site].*list, m); id.valid())
                members.push_back(id);
    }

    void groupTasks()
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
        std::vector<std::vector<TaskId>> perBucket(m_program.buckets.size());
        auto restores = perBucket;
        for (const SiteTasks &tasks : m_tasks) {
            for (const TaskId id : tasks.exchange)
                perBucket[static_cast<std::size_t>(m_program.tasks[id.index()].bucket)].push_back(id);
            for (const TaskId id : tasks.restore)
                restores[static_cast<std::size_t>(m_program.tasks[id.index()].bucket)].push_back(id);
        }
        for (const auto *exchanges : {&perBucket, &restores})
            for (const auto &bucket : *exchanges)
                addGroup(bucket);
        groupBoxing();
    }

    void groupBoxing()
    {
        std::sort(m_boxing.begin(), m_boxing.end());
        std::vector<TaskId> members;
        for (std::size_t i = 0; i < m_boxing.size(); ++i) {
            members.push_back(m_boxing[i].second);
            if (i + 1 < m_boxing.size() && m_boxing[i + 1].first == m_boxing[i].first)
                continue;
            addGroup(members);
            members.clear();
        }
    }

    Compilation &m_all;
    Program &m_program;
    const cost::CostModel &m_costs;
    BoundaryLanes m_lanes;
    std::vector<SiteTasks> m_tasks; ///< per site
    std::vector<StageParts> m_parts; ///< per stage
    std::map<std::tuple<std::size_t, bool, double, std::size_t>, Seconds> m_layersTimes; ///< by stage, pass, samples, type of device
    std::map<std::tuple<Kind, std::int32_t, std::int64_t>, Seconds> m_collectiveTimes; ///< by kind, shape of the team and bytes
    std::vector<std::pair<std::tuple<std::int32_t, std::int32_t, Pass, std::int64_t, std::int32_t>, TaskId>> m_boxing; ///< by stage, team, pass, micro-batch, operator
    std::vector<std::pair<TaskId, TaskId>> m_edges; ///< (task, what it waits for)
    std::map<std::tuple<std::size_t, double, Pass>, Seconds> m_transferTimes; ///< by the stage behind the cut, samples and pass
    std::map<std::size_t, std::int32_t> m_cutShapes; ///< by the stage behind the cut
    std::map<std::tuple<std::int32_t, std::size_t, double, Pass>, Seconds> m_crossingTimes; ///< by shape, devices before the cut, bytes and pass
    std::map<std::tuple<StageId, Kind, std::int32_t, std::int64_t>, Seconds> m_exchangeTimes; ///< by stage, kind, team and bytes
    std::map<std::pair<StageId, std::int32_t>, std::vector<std::vector<DeviceId>>> m_replicaGroups; ///< by stage and team
    std::map<std::tuple<std::size_t, std::int32_t, std::int32_t, double, std::size_t>, Seconds> m_runTimes; ///< by stage, operators, samples and device type
};

} // namespace

void buildTasks(Compilation &all) { TaskBuilder(all).build(); }

} // namespace planloom::program
