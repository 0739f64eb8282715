// SPDX-License-Identifier: Apache-2.0
#include "engine/program/deadlock.h"
#include "engine/program/program.h"
#include "engine/program/site.h"

#include <algorithm>

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

/// Ranks in the order of stages and, within one, of replicas.
Status makeSites(Compilation &all)
{
    int inFlightBefore = 0;
    for (std::size_t s = 0; s < all.plan.stages.size(); ++s) {
        const plan::Stage &stage = all.plan.stages[s];
        int inFlight = 0;
        for (std::size_t device = 0; device < stage.devices.size(); ++device) {
            RankSite site;
            site.stage = StageId(static_cast<std::int64_t>(s));
            site.replica = device / stage.shards();
            site.device = device;
            auto order = passOrder(all.plan, site.stage, all.subject.cluster->device(stage.devices[device]).name);
            if (!order)
                return order.error();
            site.order = *std::move(order);
            site.slotPlan = planSlots(site.order, all.plan.microBatches, inFlightBefore, stage.registers);
            inFlight = std::max(inFlight, maxInFlight(site.order));
            all.stages[s].holdings().ranks.emplace_back(static_cast<std::int64_t>(all.sites.size()));
            Rank rank;
            rank.device = stage.devices[device];
            all.program.ranks.push_back(std::move(rank));
            all.sites.push_back(std::move(site));
        }
        inFlightBefore = inFlight;
    }
    return {};
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

Result<Program> compile(const plan::Plan &plan, const plan::Subject &subject, const CompileOptions &options)
{
    if (const Status valid = plan::validate(plan, subject); !valid)
        return valid.error();
    Compilation all{plan, subject, Samples(plan, *subject.graph), {}, {}, {}};
    all.program.microBatches = plan.microBatches;
    all.program.globalBatch = plan.globalBatch;
    if (const Status made = makeStages(all, options.bodies); !made)
        return made.error();
    if (const Status made = makeSites(all); !made)
        return made.error();
    if (const Status made = makeBuckets(holdings(all), all.program); !made)
        return made.error();
    for (StageModel &stage : all.stages)
        if (const Status cut = stage.applyZero(all.program); !cut)
            return cut.error();
    for (std::size_t r = 0; r < all.sites.size(); ++r)
        buildBody(all, RankId(static_cast<std::int64_t>(r)), options.bodies);
    buildTasks(all);
    boundTime(all);
    const bool limited = std::any_of(plan.stages.begin(), plan.stages.end(), [](const plan::Stage &stage) { return stage.registers > 0; });
    if (plan.schedule.kind == plan::ScheduleKind::Custom || limited)
        if (const Status runs = checkRuns(all.program); !runs)
            return runs.error();
    return std::move(all.program);
}

} // namespace planloom::program
