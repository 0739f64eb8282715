// SPDX-License-Identifier: Apache-2.0
#include "engine/program/deadlock.h"
#include "engine/program/program.h"
#include "engine/program/site.h"

#include <algorithm>
#include <map>

namespace planloom::program {
namespace {

Status makeStages(Compilation &all, bool mustRun)
{
    for (std::size_t s = 0; s < all.plan.stages.size(); ++s) {
        auto model = StageModel::make(all.plan, all.subject, StageId(static_cast<std::int64_t>(s)), s > 0 ? &all.stages.back() : nullptr, mustRun);
        if (!model)
            return model.error();
        all.stages.push_back(*std::move(model));
    }
    return {};
}

/// Ranks in the order of stages and, within one, of its mesh: one for each device, whatever the number of stages on it.
Status makeRanks(Compilation &all)
{
    std::map<DeviceId, RankId> rankOf;
    for (const std::vector<std::size_t> &stages : plan::stageGroups(all.plan)) {
        for (const DeviceId device : all.plan.stages[stages.front()].devices) {
            auto order = passOrder(all.plan, stages, all.subject.cluster->device(device).name);
            if (!order)
                return order.error();
            rankOf[device] = RankId(static_cast<std::int64_t>(all.program.ranks.size()));
            all.orders.push_back(*std::move(order));
            Rank rank;
            rank.device = device;
            all.program.ranks.push_back(std::move(rank));
        }
    }
    for (std::size_t s = 0; s < all.plan.stages.size(); ++s)
        for (const DeviceId device : all.plan.stages[s].devices)
            all.stages[s].holdings().ranks.push_back(rankOf.at(device));
    return {};
}

/// The bodies of the ranks, stage by stage.
void makeSites(Compilation &all, bool roomy)
{
    int inFlightBefore = 0;
    for (std::size_t s = 0; s < all.plan.stages.size(); ++s) {
        const plan::Stage &stage = all.plan.stages[s];
        int inFlight = 0;
        all.firstSite.push_back(all.sites.size());
        for (std::size_t device = 0; device < stage.devices.size(); ++device) {
            RankSite site;
            site.stage = StageId(static_cast<std::int64_t>(s));
            site.rank = all.ranksOf(s)[device];
            site.replica = device / stage.shards();
            site.device = device;
            const std::vector<PassStep> order = stepsOf(all.orders[site.rank.index()], s);
            site.slotPlan = planSlots(order, all.plan.microBatches, {inFlightBefore, stage.registers, all.stages[s].keepsSentGradients(), roomy});
            inFlight = std::max(inFlight, maxInFlight(order));
            all.program.ranks[site.rank.index()].bodies.push_back(static_cast<std::int32_t>(all.sites.size()));
            all.sites.push_back(std::move(site));
        }
        inFlightBefore = inFlight;
    }
}

std::vector<StageHoldings> holdings(const Compilation &all)
{
    std::vector<StageHoldings> held;
    for (const StageModel &stage : all.stages)
        held.push_back(stage.holdings());
    return held;
}

void boundTime(Compilation &all)
{
    std::vector<Seconds> work(all.program.ranks.size() * kLanes);
    for (const Task &task : all.program.tasks)
        work[task.rank.index() * kLanes + static_cast<std::size_t>(task.lane)] += task.duration;
    all.program.lowerBound = *std::max_element(work.begin(), work.end());
    const cost::CostModel &costs = *all.subject.costs;
    const std::size_t type = all.subject.cluster->device(all.plan.stages.front().devices.front()).type;
    const auto batch = static_cast<double>(all.plan.globalBatch);
    const std::size_t layers = all.subject.layers().size();
    all.program.oneDevice = costs.forward(0, layers, batch, type) + costs.backward(0, layers, batch, type);
}

} // namespace

bool Compilation::hasParameter(std::size_t stage, const std::string &name) const
{
    const auto &parameters = stages[stage].holdings().parameters;
    return std::any_of(parameters.begin(), parameters.end(), [&](const HeldParameter &held) { return held.name == name; });
}

std::size_t Compilation::ownerOf(const Rank &rank, const std::string &parameter) const
{
    for (const std::int32_t site : rank.bodies)
        if (hasParameter(sites[static_cast<std::size_t>(site)].stage.index(), parameter))
            return static_cast<std::size_t>(site);
    return static_cast<std::size_t>(rank.bodies.front());
}

std::vector<std::int32_t> Compilation::bucketsAt(std::size_t site) const
{
    const RankId rank = sites[site].rank;
    std::vector<std::int32_t> buckets = bucketsOf(program, rank);
    // All parameters of a bucket are of the same stages.
    if (program.ranks[rank.index()].bodies.size() > 1)
        std::erase_if(buckets, [&](std::int32_t b) { return ownerOf(program.ranks[rank.index()], program.buckets[static_cast<std::size_t>(b)].entries.front().parameter) != site; });
    return buckets;
}

double Samples::microBatch(std::int64_t m) const
{
    if (m_proportional)
        return static_cast<double>(m_plan.globalBatch) / static_cast<double>(m_plan.microBatches);
    return static_cast<double>(plan::microBatchRange(m_plan, m).size);
}

double Samples::slice(const RankSite &site, std::int64_t m) const
{
    const plan::Stage &stage = m_plan.stages[site.stage.index()];
    if (!m_proportional)
        return static_cast<double>(plan::replicaRange(stage, site.replica, plan::microBatchRange(m_plan, m).size).size);
    const double equal = 1.0 / static_cast<double>(stage.replicas());
    return microBatch(m) * (stage.replicaShares.empty() ? equal : stage.replicaShares[site.replica]);
}

double Samples::largestSlice(const RankSite &site) const
{
    double most = 0;
    for (std::int64_t m = 0; m < m_plan.microBatches; ++m)
        most = std::max(most, slice(site, m));
    return most;
}

namespace {

/// @p roomy: with a place for every micro-batch wherever stages meet, so that an order runs if it can.
Result<Program> compileWith(const plan::Plan &plan, const plan::Subject &subject, bool bodies, bool roomy)
{
    Compilation all{plan, subject, Samples(plan, *subject.graph), {}, {}, {}, {}, {}};
    all.program.microBatches = plan.microBatches;
    all.program.globalBatch = plan.globalBatch;
    if (const Status made = makeStages(all, bodies); !made)
        return made.error();
    if (const Status made = makeRanks(all); !made)
        return made.error();
    if (const Status made = makeBuckets(holdings(all), all.program); !made)
        return made.error();
    for (StageModel &stage : all.stages) {
        if (const Status cut = stage.applyZero(all.program); !cut)
            return cut.error();
        if (const Status cut = stage.applySplit(); !cut)
            return cut.error();
    }
    makeSites(all, roomy);
    buildBodies(all, bodies);
    buildTasks(all);
    boundTime(all);
    return std::move(all.program);
}

} // namespace

Result<Program> compile(const plan::Plan &plan, const plan::Subject &subject, const CompileOptions &options)
{
    if (const Status valid = plan::validate(plan, subject); !valid)
        return valid.error();
    auto program = compileWith(plan, subject, options.bodies, false);
    if (!program)
        return program;
    const bool limited = std::any_of(plan.stages.begin(), plan.stages.end(), [](const plan::Stage &stage) { return stage.registers > 0; });
    const bool shared = program->bodies.size() > program->ranks.size();
    if (plan.schedule.kind != plan::ScheduleKind::Custom && !limited && !shared)
        return program;
    const Status runs = checkRuns(*program);
    if (runs)
        return program;
    if (limited)
        return runs.error();
    program = compileWith(plan, subject, options.bodies, true);
    if (const Status roomy = program ? checkRuns(*program) : Status(); !roomy)
        return roomy.error();
    return program;
}

} // namespace planloom::program
