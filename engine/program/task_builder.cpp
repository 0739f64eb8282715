// SPDX-License-Identifier: Apache-2.0
#include "engine/program/task_draft.h"
#include "engine/program/task_times.h"

#include <algorithm>

namespace planloom::program {
namespace {

using trace::Kind;

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

/// Makes tasks; what waits for what and what runs together come after.
class TaskBuilder {
public:
    explicit TaskBuilder(Compilation &all)
        : m_all(all), m_program(all.program), m_lanes(boundaryLanes(*all.subject.cluster)), m_draft{partsOfStages(all), std::vector<SiteTasks>(all.sites.size()), {}, {}},
          m_times(all, m_draft.parts)
    {
    }

    void build()
    {
        for (std::size_t site = 0; site < m_all.sites.size(); ++site) {
            addPasses(site);
            addUpdate(site);
        }
        handOver();
        orderTasks(m_all, m_draft);
        groupTasks(m_all, m_draft);
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

    /// One pass of one micro-batch: its runs and the boxing between them.
    PassTasks addPass(std::size_t index, Kind kind, Pass pass, std::int64_t m, Seconds duration)
    {
        const RankSite &site = m_all.sites[index];
        const TaskTimes::Slice slice = m_times.slice(site, m);
        const StageParts &stage = m_draft.parts[slice.stage];
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
                                          : add(index, kind, Lane::Compute, pass, m, m_times.run(slice, part, duration * shares[i]));
            Task &task = m_program.tasks[id.index()];
            task.firstOp = part.first;
            task.lastOp = part.last;
            made.push_back(id);
            for (const std::size_t before : part.waitsFor)
                m_draft.depend(id, made[before]);
            if (part.boxing) {
                m_draft.depend(id, tasks.runs.back());
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
            m_draft.sites[index].lastParts = std::move(made);
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
        const Boxing &boxing = m_draft.parts[site.stage.index()].boxing.at(op);
        const std::int32_t team = m_all.teams->teamOf(boxing.set, site.rank);
        const std::int64_t whole = m_times.boxedBytes(m_times.slice(site, m), op);
        const TaskId id = add(index, boxing.kind, Lane::Collective, pass, m, m_times.collective(boxing.kind, team, whole));
        Task &task = m_program.tasks[id.index()];
        task.part = number;
        task.team = team;
        task.bytes = m_times.sentBytes(boxing.kind, team, whole, site.rank, boxing.type);
        m_draft.boxing.push_back({{site.stage.value, team, pass, m, op}, id});
        return id;
    }

    void addPasses(std::size_t index)
    {
        const RankSite &site = m_all.sites[index];
        SiteTasks &tasks = m_draft.sites[index];
        const std::size_t here = site.stage.index();
        const bool gradientIn = !m_all.isLast(site) && m_all.stages[here].returnsGradient();
        const bool gradientOut = !m_all.isFirst(site) && m_all.stages[here - 1].returnsGradient() && !m_all.staysOnDevice(here - 1);
        const bool activationOut = !m_all.isLast(site) && !m_all.staysOnDevice(here);
        for (std::int64_t m = 0; m < m_all.plan.microBatches; ++m) {
            const TaskTimes::Slice slice = m_times.slice(site, m);
            const Seconds forward = m_times.layers(slice, false);
            const Seconds backward = m_times.layers(slice, true);
            if (!m_all.isFirst(site))
                tasks.receiveActivation.push_back(add(index, Kind::Receive, m_lanes.activationIn, Pass::Forward, m, m_times.transfer(here, m, Pass::Forward)));
            tasks.forward.push_back(addPass(index, Kind::Forward, Pass::Forward, m, forward));
            if (activationOut)
                tasks.sendActivation.push_back(add(index, Kind::Send, m_lanes.activationOut, Pass::Forward, m, m_times.transfer(here + 1, m, Pass::Forward)));
            if (gradientIn)
                tasks.receiveGradient.push_back(add(index, Kind::Receive, m_lanes.gradientIn, Pass::Backward, m, m_times.transfer(here + 1, m, Pass::Backward)));
            if (m_all.stages[here].runsAgain())
                tasks.recompute.push_back(addPass(index, Kind::Recompute, Pass::Recompute, m, forward));
            tasks.backward.push_back(addPass(index, Kind::Backward, Pass::Backward, m, backward));
            if (gradientOut)
                tasks.sendGradient.push_back(add(index, Kind::Send, m_lanes.gradientOut, Pass::Backward, m, m_times.transfer(here, m, Pass::Backward)));
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
                SiteTasks &here = m_draft.sites[m_all.sitesOf[stage][i]];
                SiteTasks &next = m_draft.sites[m_all.sitesOf[stage + 1][i]];
                here.sendActivation = next.receiveActivation;
                next.sendGradient = here.receiveGradient;
            }
        }
    }

    TaskId addExchange(std::size_t site, Kind kind, std::int32_t index)
    {
        const Bucket &bucket = m_program.buckets[static_cast<std::size_t>(index)];
        const std::int64_t bytes = kind == Kind::AllGather ? bucket.elements * graph::sizeOf(bucket.type) : bucket.bytes();
        const TaskId id = add(site, kind, Lane::Collective, Pass::Backward, -1, m_times.exchange(m_all.sites[site].stage, kind, bucket.team, bytes));
        Task &task = m_program.tasks[id.index()];
        task.bucket = index;
        task.team = bucket.team;
        task.bytes = m_times.sentBytes(kind, bucket.team, bytes, m_all.sites[site].rank, kind == Kind::AllGather ? bucket.type : graph::DType::F32);
        return id;
    }

    void addUpdate(std::size_t at)
    {
        const RankSite &site = m_all.sites[at];
        SiteTasks &tasks = m_draft.sites[at];
        std::int64_t bytes = 0;
        const std::vector<std::int32_t> &mine = m_all.bucketsAt[at];
        for (const std::int32_t index : mine) {
            const Bucket &bucket = m_program.buckets[static_cast<std::size_t>(index)];
            const auto members = static_cast<std::int64_t>(m_program.teams[static_cast<std::size_t>(bucket.team)].size());
            bytes += bucket.zero > 0 ? bucket.bytes() / members : bucket.bytes();
            if (members > 1 && bucket.zero < 2)
                tasks.exchange.push_back(addExchange(at, bucket.zero == 0 ? Kind::AllReduce : Kind::ReduceScatter, index));
        }
        if (bytes == 0)
            return;
        tasks.optimizer = add(at, Kind::Optimizer, Lane::Compute, Pass::Backward, -1, m_times.optimizer(site, bytes));
        for (const std::int32_t index : mine) {
            const Bucket &bucket = m_program.buckets[static_cast<std::size_t>(index)];
            if (bucket.zero == 1 || bucket.zero == 2)
                tasks.restore.push_back(addExchange(at, Kind::AllGather, index));
        }
    }

    Compilation &m_all;
    Program &m_program;
    BoundaryLanes m_lanes;
    TaskDraft m_draft;
    TaskTimes m_times;
};

} // namespace

void buildTasks(Compilation &all) { TaskBuilder(all).build(); }

} // namespace planloom::program
