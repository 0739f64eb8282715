// SPDX-License-Identifier: Apache-2.0
#include "engine/program/deadlock.h"
#include "engine/program/program.h"
#include "engine/program/slots.h"
#include "engine/program/stage_model.h"

#include <algorithm>
#include <cmath>

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

/// A rank's place in the plan.
struct RankSite {
    StageId stage;
    std::size_t replica = 0;
    std::vector<PassStep> order;
    SlotPlan slots;
    RankTasks tasks;
};

class Compiler {
public:
    Compiler(const plan::Plan &plan, const plan::Subject &subject, const CompileOptions &options)
        : m_plan(plan), m_subject(subject), m_options(options), m_costs(*subject.costs), m_proportional(isLayerProfile(*subject.graph))
    {
    }

    Result<Program> compile()
    {
        if (const Status valid = plan::validate(m_plan, m_subject); !valid)
            return valid.error();
        m_program.microBatches = m_plan.microBatches;
        m_program.globalBatch = m_plan.globalBatch;
        if (const Status made = makeStages(); !made)
            return made.error();
        if (const Status made = makeSites(); !made)
            return made.error();
        m_program.buckets = makeBuckets(holdings());
        for (std::size_t r = 0; r < m_sites.size(); ++r)
            makeBody(RankId(static_cast<std::int64_t>(r)));
        for (std::size_t r = 0; r < m_sites.size(); ++r)
            makeTasks(RankId(static_cast<std::int64_t>(r)));
        for (std::size_t r = 0; r < m_sites.size(); ++r)
            connectRank(m_sites[r]);
        flattenDependencies();
        groupTasks();
        boundTime();
        return std::move(m_program);
    }

private:
    [[nodiscard]] std::size_t stageCount() const { return m_plan.stages.size(); }
    [[nodiscard]] const plan::Stage &stageOf(const RankSite &site) const { return m_plan.stages[site.stage.index()]; }
    [[nodiscard]] bool isFirst(const RankSite &site) const { return site.stage.value == 0; }
    [[nodiscard]] bool isLast(const RankSite &site) const { return site.stage.index() + 1 == stageCount(); }

    // --- What there is: stages, ranks, holdings -------------------------------------------------------------------

    Status makeStages()
    {
        for (std::size_t s = 0; s < stageCount(); ++s) {
            auto model = StageModel::make(m_plan, m_subject, StageId(static_cast<std::int64_t>(s)), m_options.bodies);
            if (!model)
                return model.error();
            m_stages.push_back(*std::move(model));
        }
        return {};
    }

    Status makeSites()
    {
        int inFlightBefore = 0;
        for (std::size_t s = 0; s < stageCount(); ++s) {
            const plan::Stage &stage = m_plan.stages[s];
            int inFlight = 0;
            for (std::size_t replica = 0; replica < stage.devices.size(); ++replica) {
                RankSite site;
                site.stage = StageId(static_cast<std::int64_t>(s));
                site.replica = replica;
                auto order = passOrder(m_plan, site.stage, m_subject.cluster->device(stage.devices[replica]).name);
                if (!order)
                    return order.error();
                site.order = *std::move(order);
                site.slots = planSlots(site.order, m_plan.microBatches, inFlightBefore);
                inFlight = std::max(inFlight, maxInFlight(site.order));
                m_stages[s].holdings().ranks.emplace_back(static_cast<std::int64_t>(m_sites.size()));
                Rank rank;
                rank.device = stage.devices[replica];
                m_program.ranks.push_back(std::move(rank));
                m_sites.push_back(std::move(site));
            }
            inFlightBefore = inFlight;
        }
        return {};
    }

    [[nodiscard]] std::vector<StageHoldings> holdings() const
    {
        std::vector<StageHoldings> all;
        for (const StageModel &stage : m_stages)
            all.push_back(stage.holdings());
        return all;
    }

    // --- Samples --------------------------------------------------------------------------------------------------

    /// Samples of a micro-batch. A layer profile's times are linear and nothing is executed: its micro-batches are all alike.
    [[nodiscard]] double microBatchSamples(std::int64_t m) const
    {
        if (m_proportional)
            return static_cast<double>(m_plan.globalBatch) / static_cast<double>(m_plan.microBatches);
        return static_cast<double>(plan::microBatchRange(m_plan, m).size);
    }

    [[nodiscard]] double sliceSamples(const RankSite &site, std::int64_t m) const
    {
        const plan::Stage &stage = stageOf(site);
        if (!m_proportional)
            return static_cast<double>(plan::replicaRange(stage, site.replica, plan::microBatchRange(m_plan, m).size).size);
        const double equal = 1.0 / static_cast<double>(stage.devices.size());
        return microBatchSamples(m) * (stage.replicaShares.empty() ? equal : stage.replicaShares[site.replica]);
    }

    [[nodiscard]] double largestSlice(const RankSite &site) const
    {
        double most = 0;
        for (std::int64_t m = 0; m < m_plan.microBatches; ++m)
            most = std::max(most, sliceSamples(site, m));
        return most;
    }

    // --- Memory ---------------------------------------------------------------------------------------------------

    void makeBody(RankId id)
    {
        const RankSite &site = m_sites[id.index()];
        StageModel &model = m_stages[site.stage.index()];
        const double samples = largestSlice(site);
        const StageLayout &layout = model.layout(samples);
        const PersistentLayout persistent = layoutPersistent(model.holdings(), id, m_plan.optimizer.stateTensors(), m_program.buckets);
        Body body;
        body.stage = site.stage;
        body.rank = id;
        body.replica = site.replica;
        body.recompute = stageOf(site).recompute;
        body.maxSamples = static_cast<std::int64_t>(std::ceil(samples));
        body.slotTable = site.slots.slotTable;
        Rank &rank = m_program.ranks[id.index()];
        rank.persistentBytes = persistent.bytes;
        for (int a = 0; a < kAreas; ++a) {
            const auto area = static_cast<std::size_t>(a);
            Pool pool;
            pool.begin = rank.arenaBytes;
            pool.slotBytes = area == 0 ? persistent.bytes : layout.slotBytes[area];
            pool.count = pool.slotBytes > 0 ? site.slots.counts[area] : 0;
            rank.arenaBytes += pool.bytes();
            body.pools.push_back(pool);
        }
        if (m_options.bodies)
            fillBody(body, site, model, layout, persistent);
        rank.bodies.push_back(static_cast<std::int32_t>(m_program.bodies.size()));
        m_program.bodies.push_back(std::move(body));
    }

    void fillBody(Body &body, const RankSite &site, const StageModel &model, const StageLayout &layout, const PersistentLayout &persistent) const
    {
        body.training = *model.training();
        body.forwardPlaces = layout.forwardPlaces;
        body.backwardPlaces = layout.backwardPlaces;
        body.parameterOffsets = persistent.parameters;
        body.gradientOffsets = persistent.gradients;
        body.stateOffsets = persistent.states;
        const auto placeHeld = [&body](const std::vector<HeldTensor> &tensors, const std::vector<std::int64_t> &offsets) {
            for (std::size_t i = 0; i < tensors.size(); ++i) {
                body.forwardPlaces[tensors[i].id.index()].offset = offsets[i];
                body.backwardPlaces[tensors[i].id.index()].offset = offsets[i];
            }
        };
        placeHeld(model.holdings().parameters, persistent.parameters);
        placeHeld(model.holdings().others, persistent.others);
        for (std::int64_t m = 0; m < m_plan.microBatches; ++m) {
            const plan::SampleRange batch = plan::microBatchRange(m_plan, m);
            const plan::SampleRange slice = plan::replicaRange(stageOf(site), site.replica, batch.size);
            body.slices.push_back({batch.begin + slice.begin, slice.size});
            body.incoming.push_back(isFirst(site) ? std::vector<Message>{} : messages(site.stage.index() - 1, slice, batch.size));
            body.outgoing.push_back(isLast(site) ? std::vector<Message>{} : messages(site.stage.index() + 1, slice, batch.size));
        }
    }

    /// The parts of @p slice that each replica of stage @p other works on.
    [[nodiscard]] std::vector<Message> messages(std::size_t other, plan::SampleRange slice, std::int64_t microBatchSize) const
    {
        std::vector<Message> parts;
        const plan::Stage &stage = m_plan.stages[other];
        for (std::size_t replica = 0; replica < stage.devices.size(); ++replica) {
            const plan::SampleRange theirs = plan::replicaRange(stage, replica, microBatchSize);
            const std::int64_t begin = std::max(slice.begin, theirs.begin);
            const std::int64_t end = std::min(slice.begin + slice.size, theirs.begin + theirs.size);
            if (begin < end)
                parts.push_back({m_stages[other].holdings().ranks[replica], {begin, end - begin}});
        }
        return parts;
    }

    // --- Tasks ----------------------------------------------------------------------------------------------------

    TaskId add(RankId rank, Kind kind, Lane lane, Pass pass, std::int64_t microBatch, Seconds duration)
    {
        const TaskId id(static_cast<std::int64_t>(m_program.tasks.size()));
        Task task;
        task.kind = kind;
        task.lane = lane;
        task.pass = pass;
        task.rank = rank;
        task.stage = m_sites[rank.index()].stage;
        task.microBatch = static_cast<std::int32_t>(microBatch);
        task.body = m_program.ranks[rank.index()].bodies.front();
        task.duration = duration;
        m_program.tasks.push_back(task);
        m_program.ranks[rank.index()].tasks.push_back(id);
        return id;
    }

    void makeTasks(RankId rank)
    {
        RankSite &site = m_sites[rank.index()];
        RankTasks &tasks = site.tasks;
        const plan::Stage &stage = stageOf(site);
        const std::size_t type = m_subject.cluster->device(stage.devices[site.replica]).type;
        // On half-duplex links both directions take turns on one lane. The two-level rules know one resource per boundary (DAPPLE's
        // network stage), so there the boundary to the previous stage has a lane and the one to the next another.
        const bool fullDuplex = m_subject.cluster->fullDuplex();
        const bool perBoundary = !fullDuplex && m_subject.cluster->commModel() == cluster::CommModel::TwoLevel;
        const Lane activationIn = fullDuplex || perBoundary ? Lane::Receive : Lane::Send;
        const Lane gradientOutLane = perBoundary ? Lane::Receive : Lane::Send;
        const Lane gradientInLane = fullDuplex ? Lane::Receive : Lane::Send;
        const bool gradientIn = !isLast(site) && m_stages[site.stage.index()].returnsGradient();
        const bool gradientOut = !isFirst(site) && m_stages[site.stage.index() - 1].returnsGradient();
        for (std::int64_t m = 0; m < m_plan.microBatches; ++m) {
            const double samples = sliceSamples(site, m);
            const Seconds forward = m_costs.forward(stage.firstLayer, stage.lastLayer, samples, type);
            if (!isFirst(site))
                tasks.receiveActivation.push_back(add(rank, Kind::Receive, activationIn, Pass::Forward, m, transferTime(site.stage.index(), m, Pass::Forward)));
            tasks.forward.push_back(add(rank, Kind::Forward, Lane::Compute, Pass::Forward, m, forward));
            if (!isLast(site))
                tasks.sendActivation.push_back(add(rank, Kind::Send, Lane::Send, Pass::Forward, m, transferTime(site.stage.index() + 1, m, Pass::Forward)));
            if (gradientIn)
                tasks.receiveGradient.push_back(add(rank, Kind::Receive, gradientInLane, Pass::Backward, m, transferTime(site.stage.index() + 1, m, Pass::Backward)));
            if (stage.recompute)
                tasks.recompute.push_back(add(rank, Kind::Recompute, Lane::Compute, Pass::Forward, m, forward));
            tasks.backward.push_back(add(rank, Kind::Backward, Lane::Compute, Pass::Backward, m, m_costs.backward(stage.firstLayer, stage.lastLayer, samples, type)));
            if (gradientOut)
                tasks.sendGradient.push_back(add(rank, Kind::Send, gradientOutLane, Pass::Backward, m, transferTime(site.stage.index(), m, Pass::Backward)));
        }
        makeUpdateTasks(rank, type);
    }

    void makeUpdateTasks(RankId rank, std::size_t type)
    {
        RankSite &site = m_sites[rank.index()];
        for (std::size_t b = 0; b < m_program.buckets.size(); ++b) {
            const Bucket &bucket = m_program.buckets[b];
            if (bucket.ranks.size() < 2 || !std::binary_search(bucket.ranks.begin(), bucket.ranks.end(), rank))
                continue;
            const TaskId id = add(rank, Kind::AllReduce, Lane::Collective, Pass::Backward, -1, allReduceTime(bucket));
            m_program.tasks[id.index()].bucket = static_cast<std::int32_t>(b);
            site.tasks.allReduce.push_back(id);
        }
        std::int64_t bytes = 0;
        for (const HeldTensor &parameter : m_stages[site.stage.index()].holdings().parameters)
            bytes += parameter.bytes;
        if (bytes == 0)
            return;
        site.tasks.optimizer = add(rank, Kind::Optimizer, Lane::Compute, Pass::Backward, -1,
                                   m_costs.optimizerStep(Bytes(bytes), m_plan.optimizer.stateTensors(), type));
    }

    /// A micro-batch's activations over the cut before stage @p after, or their gradients back.
    [[nodiscard]] Seconds transferTime(std::size_t after, std::int64_t m, Pass pass) const
    {
        const plan::Stage &sender = m_plan.stages[pass == Pass::Forward ? after - 1 : after];
        const plan::Stage &receiver = m_plan.stages[pass == Pass::Forward ? after : after - 1];
        const auto bytes = static_cast<double>(m_subject.layers().cutBytes(*m_subject.graph, m_plan.stages[after].firstLayer, 1).value());
        const auto key = std::make_tuple(after, microBatchSamples(m), pass);
        const auto found = m_transferTimes.find(key);
        if (found != m_transferTimes.end())
            return found->second;
        const Seconds seconds = m_costs.transfer(sender.devices, receiver.devices, bytes * microBatchSamples(m));
        m_transferTimes.emplace(key, seconds);
        return seconds;
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
    static std::int32_t before(const RankSite &site, Area area, std::int64_t m)
    {
        return site.slots.previous[static_cast<std::size_t>(area)][static_cast<std::size_t>(m)];
    }

    void connectRank(const RankSite &site)
    {
        const RankTasks &t = site.tasks;
        for (std::int64_t m = 0; m < m_plan.microBatches; ++m) {
            depend(taskAt(t.forward, m), taskAt(t.receiveActivation, m));
            depend(taskAt(t.sendActivation, m), taskAt(t.forward, m));
            depend(taskAt(t.backward, m), taskAt(t.receiveGradient, m));
            depend(taskAt(t.sendGradient, m), taskAt(t.backward, m));
            // A slot is taken again only when whoever had it before is done with it.
            depend(taskAt(t.receiveActivation, m), taskAt(t.backward, before(site, Area::Inbox, m)));
            depend(taskAt(t.forward, m), taskAt(t.sendActivation, before(site, Area::Outbox, m)));
            depend(taskAt(t.receiveGradient, m), taskAt(t.backward, before(site, Area::GradientInbox, m)));
            depend(taskAt(t.receiveGradient, m), taskAt(t.sendGradient, before(site, Area::GradientInbox, m)));
            depend(taskAt(t.backward, m), taskAt(t.sendGradient, before(site, Area::GradientOutbox, m)));
        }
        Rank &rank = m_program.ranks[m_program.tasks[t.forward.front().index()].rank.index()];
        for (const PassStep &step : site.order) {
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
        Group group;
        group.first = static_cast<std::int32_t>(m_program.groupMembers.size());
        for (const TaskId id : members) {
            m_program.tasks[id.index()].group = index;
            m_program.groupMembers.push_back(id);
        }
        group.last = static_cast<std::int32_t>(m_program.groupMembers.size());
        m_program.groups.push_back(group);
    }

    void collect(std::size_t stage, std::vector<TaskId> RankTasks::*list, std::int64_t m, std::vector<TaskId> &members) const
    {
        for (const RankId rank : m_stages[stage].holdings().ranks)
            if (const TaskId id = taskAt(m_sites[rank.index()].tasks.*list, m); id.valid())
                members.push_back(id);
    }

    void groupTasks()
    {
        std::vector<TaskId> members;
        for (std::int64_t m = 0; m < m_plan.microBatches; ++m) {
            for (std::size_t s = 0; s + 1 < stageCount(); ++s) {
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
        for (const RankSite &site : m_sites)
            for (const TaskId id : site.tasks.allReduce)
                perBucket[static_cast<std::size_t>(m_program.tasks[id.index()].bucket)].push_back(id);
        for (const auto &bucket : perBucket)
            addGroup(bucket);
    }

    void boundTime()
    {
        std::vector<Seconds> work(m_program.ranks.size() * kLanes);
        for (const Task &task : m_program.tasks)
            work[task.rank.index() * kLanes + static_cast<std::size_t>(task.lane)] += task.duration;
        m_program.lowerBound = *std::max_element(work.begin(), work.end());
        const std::size_t type = m_subject.cluster->device(m_plan.stages.front().devices.front()).type;
        const auto batch = static_cast<double>(m_plan.globalBatch);
        const std::size_t layers = m_subject.layers().size();
        m_program.oneDevice = m_costs.forward(0, layers, batch, type) + m_costs.backward(0, layers, batch, type);
    }

    const plan::Plan &m_plan;
    const plan::Subject &m_subject;
    CompileOptions m_options;
    const cost::CostModel &m_costs;
    bool m_proportional;
    Program m_program;
    std::vector<StageModel> m_stages;
    std::vector<RankSite> m_sites;
    std::vector<std::pair<TaskId, TaskId>> m_edges; ///< (task, what it waits for)
    mutable std::map<std::tuple<std::size_t, double, Pass>, Seconds> m_transferTimes;
};

} // namespace

Result<Program> compile(const plan::Plan &plan, const plan::Subject &subject, const CompileOptions &options)
{
    auto program = Compiler(plan, subject, options).compile();
    if (!program || plan.schedule.kind != plan::ScheduleKind::Custom)
        return program;
    if (const Status runs = checkRuns(*program); !runs)
        return runs.error();
    return program;
}

} // namespace planloom::program
