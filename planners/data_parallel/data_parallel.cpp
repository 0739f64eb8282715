// SPDX-License-Identifier: Apache-2.0
#include "planners/data_parallel/data_parallel.h"

#include "planners/common/memory.h"
#include "planners/common/micro_batch.h"
#include "planners/data_parallel/overlap.h"
#include "planners/interface/options.h"
#include "planners/interface/shared_cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace planloom::planners::data_parallel {
namespace {

struct Settings {
    bool recompute = false;
    double reserve = 0;
};

plan::Plan planOf(const Problem &problem, const Options &options, std::int64_t microBatches)
{
    plan::Plan plan = emptyPlan(problem, "data-parallel", options);
    plan.microBatches = microBatches;
    plan::Stage stage;
    stage.name = "all";
    stage.lastLayer = problem.subject.layers().size();
    for (const cluster::Device &device : problem.subject.cluster->devices())
        stage.devices.push_back(device.id);
    stage.zero = stage.devices.size() > 1 ? problem.zero : 0;
    plan.stages = {std::move(stage)};
    plan.schedule.kind = plan::ScheduleKind::OneF1B;
    return plan;
}

/// Seconds of an iteration without overlap, with it (gradients leave while the last backward pass runs), and on one
/// device.
plan::Estimate estimateOf(const Problem &problem, const plan::Plan &plan)
{
    const cost::CostModel &costs = *problem.subject.costs;
    const std::vector<DeviceId> &devices = plan.stages.front().devices;
    const double micro = static_cast<double>(plan.globalBatch) / static_cast<double>(plan.microBatches);
    const double slice = micro / static_cast<double>(devices.size());
    const std::size_t layers = costs.layers().size();
    const auto pass = [&](double samples, std::size_t type) {
        return (costs.forward(0, layers, samples, type) + costs.backward(0, layers, samples, type)).value();
    };
    double compute = 0;
    for (std::size_t type = 0; type < problem.subject.cluster->types().size(); ++type)
        compute = std::max(compute, pass(slice, type) * static_cast<double>(plan.microBatches));
    compute = std::max(compute, sharedCoreSeconds(plan, problem.subject));
    const double one = pass(slice, problem.subject.cluster->device(devices.front()).type)
        * static_cast<double>(plan.globalBatch) / slice;
    const double exchange =
        costs.allReduce(devices, static_cast<double>(costs.parameterBytes(0, layers).value())).value();
    const double exposed = std::min(exchange, devices.size() > 1 ? exposedExchange(costs, slice) : 0.0);
    return {{"iteration_seconds", compute + exchange},
            {"iteration_seconds_with_overlap", compute + exposed},
            {"speedup_over_one_device", compute + exchange > 0 ? one / (compute + exchange) : 1},
            {"speedup_with_overlap", compute + exposed > 0 ? one / (compute + exposed) : 1},
            {"all_reduce_seconds", exchange}};
}

/// True if the plan, perhaps with recomputation, fits every device by the planners' memory model; @p tight keeps the
/// closest miss.
bool fit(const Problem &problem, const MemoryModel &memory, const Settings &settings, plan::Plan &plan,
         MemoryLimit &tight)
{
    plan::Stage &stage = plan.stages.front();
    const double slice = static_cast<double>(plan.globalBatch) / static_cast<double>(plan.microBatches)
        / static_cast<double>(stage.devices.size());
    for (const bool recompute : {false, true}) {
        if (recompute && !settings.recompute)
            break;
        const StageFootprint footprint = memory.footprint(0, problem.subject.layers().size(), slice, recompute);
        const double needed = footprint.fixed + footprint.perMicroBatch;
        const auto least = std::min_element(stage.devices.begin(), stage.devices.end(), [&](DeviceId a, DeviceId b) {
            return memory.usable(a) < memory.usable(b);
        });
        stage.recompute = recompute ? plan::Recompute::Full : plan::Recompute::None;
        if (needed <= memory.usable(*least))
            return true;
        if (!tight.device.valid() || needed < tight.needed)
            tight = {"the whole model (all layers)", *least, needed, memory.usable(*least)};
    }
    return false;
}

bool beats(const PlanReport &report, const PlanReport &other)
{
    if (report.predicted.fits != other.predicted.fits)
        return report.predicted.fits;
    return report.predicted.iterationSeconds < other.predicted.iterationSeconds;
}

/// The best of the numbers of micro-batches by the simulator.
Result<PlanReport> fastest(const Problem &problem, const Options &options, const Settings &settings,
                           const std::set<std::int64_t> &counts, const Progress &progress)
{
    const MemoryModel memory(*problem.subject.costs, problem.optimizer, settings.reserve);
    std::optional<PlanReport> best;
    MemoryLimit tight;
    for (const std::int64_t count : counts) {
        if (progress.stopped())
            break;
        plan::Plan plan = planOf(problem, options, count);
        if (!fit(problem, memory, settings, plan, tight))
            continue;
        plan.estimate = estimateOf(problem, plan);
        Result<PlanReport> report = finish(std::move(plan), problem);
        if (!report)
            return report.error();
        if (!best || beats(*report, *best))
            best = *std::move(report);
    }
    if (best && !best->predicted.fits)
        return memoryBinds(*problem.subject.cluster, limitOf(best->plan, problem.subject, best->predicted));
    if (best)
        return *std::move(best);
    return progress.stopped() ? cancelled("stopped before a plan was found")
                              : memoryBinds(*problem.subject.cluster, tight);
}

} // namespace

std::vector<OptionInfo> DataParallelPlanner::options() const
{
    return {{"recompute",
             "never",
             "never, or auto: run the forward pass again before backward where the model does not fit otherwise",
             "auto",
             {"never", "auto"}},
            {"memory_reserve", "0.05", "share of a device's memory left to driver, libraries and fragmentation"}};
}

Result<PlanReport> DataParallelPlanner::plan(const Problem &problem, const Options &options, Progress &progress) const
{
    if (Status status = validate(problem); !status)
        return status.error();
    OptionReader reader(options, this->options());
    const Settings settings{reader.choice("recompute") == "auto", reader.number("memory_reserve", 0, 0.9)};
    if (!reader.status())
        return reader.status().error();
    const auto devices = static_cast<std::int64_t>(problem.subject.cluster->devices().size());
    if (problem.globalBatch < devices)
        return infeasible(fmt::format("a batch of {} leaves some of {} devices without a sample; give at least {}",
                                      problem.globalBatch, devices, devices));
    std::set<std::int64_t> counts; // fewest micro-batches first
    for (const std::int64_t perDevice : microBatchChoices(problem))
        counts.insert(std::max<std::int64_t>(1, problem.globalBatch / (perDevice * devices)));
    Result<PlanReport> best = fastest(problem, options, settings, counts, progress);
    if (best)
        best->complete = !progress.stopped();
    progress.report(1, "done");
    return best;
}

} // namespace planloom::planners::data_parallel
