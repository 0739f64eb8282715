// SPDX-License-Identifier: Apache-2.0
#include "planners/gpipe/gpipe.h"

#include "planners/common/balance.h"
#include "planners/common/kept_stages.h"
#include "planners/common/memory.h"
#include "planners/interface/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace planloom::planners::gpipe {
namespace {

/// GPipe §2: the bubble is negligible from four micro-batches a stage on.
constexpr std::int64_t kMicroBatchesPerStage = 4;

struct Settings {
    std::size_t stages = 0;
    std::string recompute;
    double reserve = 0;
    KeptStages keep;
};

std::int64_t microBatchesFor(const Problem &problem, std::size_t stages)
{
    if (problem.microBatch)
        return problem.globalBatch / *problem.microBatch;
    return std::min(problem.globalBatch, kMicroBatchesPerStage * static_cast<std::int64_t>(stages));
}

double samplesOf(const plan::Plan &plan)
{
    return static_cast<double>(plan.globalBatch) / static_cast<double>(plan.microBatches);
}

/// Where @p keep leaves no way to cut, the stages are not what it allows.
std::vector<plan::Stage> balancedStages(const Problem &problem, std::size_t count, double samples,
                                        const KeptStages &keep)
{
    const cost::CostModel &costs = *problem.subject.costs;
    const auto devices = problem.subject.cluster->devices();
    const std::vector<std::size_t> cuts =
        balancedCuts(costs.layers().size(), count, [&](std::size_t index, std::size_t first, std::size_t last) {
            if (!keep.allows(first, last))
                return std::numeric_limits<double>::infinity();
            return (costs.forward(first, last, samples, devices[index].type)
                    + costs.backward(first, last, samples, devices[index].type))
                .value();
        });
    std::vector<plan::Stage> stages(count);
    for (std::size_t i = 0; i < count; ++i) {
        stages[i].name = fmt::format("stage{}", i);
        stages[i].firstLayer = i == 0 ? 0 : cuts[i - 1];
        stages[i].lastLayer = i + 1 < count ? cuts[i] : costs.layers().size();
        stages[i].devices = {devices[i].id};
    }
    return stages;
}

/// Every stage keeps all micro-batches. Error: Infeasible, naming the stage.
Status fit(const Problem &problem, const Settings &settings, plan::Plan &plan)
{
    const MemoryModel memory(*problem.subject.costs, problem.optimizer, settings.reserve);
    for (plan::Stage &stage : plan.stages) {
        const auto needed = [&](bool recompute) {
            const StageFootprint footprint =
                memory.footprint(stage.firstLayer, stage.lastLayer, samplesOf(plan), recompute);
            return footprint.fixed + static_cast<double>(plan.microBatches) * footprint.perMicroBatch;
        };
        const DeviceId device = stage.devices.front();
        const double usable = memory.usable(device);
        const bool again = settings.recompute == "always" || (settings.recompute == "auto" && needed(false) > usable);
        stage.recompute = again ? plan::Recompute::Full : plan::Recompute::None;
        if (needed(again) <= usable)
            continue;
        return memoryBinds(*problem.subject.cluster,
                           {fmt::format("{} (layers {} to {})", stage.name, stage.firstLayer, stage.lastLayer), device,
                            needed(again), usable},
                           fmt::format(" with {} micro-batches in flight", plan.microBatches));
    }
    return {};
}

plan::Estimate estimateOf(const Problem &problem, const plan::Plan &plan)
{
    const cost::CostModel &costs = *problem.subject.costs;
    const double samples = samplesOf(plan);
    double slowest = 0;
    double one = 0;
    for (const plan::Stage &stage : plan.stages) {
        const std::size_t type = problem.subject.cluster->device(stage.devices.front()).type;
        const Seconds forward = costs.forward(stage.firstLayer, stage.lastLayer, samples, type);
        const Seconds pass = forward + costs.backward(stage.firstLayer, stage.lastLayer, samples, type);
        one += pass.value();
        slowest = std::max(slowest, (pass + (stage.recompute == plan::Recompute::Full ? forward : Seconds(0))).value());
    }
    const auto count = static_cast<double>(plan.microBatches);
    const double seconds = slowest * (count + static_cast<double>(plan.stages.size()) - 1);
    return {{"iteration_seconds", seconds}, {"speedup_over_one_device", seconds > 0 ? one * count / seconds : 1}};
}

} // namespace

std::vector<OptionInfo> GpipePlanner::options() const
{
    return {{"stages", "0", "pipeline stages; 0: as many as there are devices (or layers)", "0"},
            {"recompute",
             "never",
             "run forward again before backward: never, always, or auto (stages that do not fit otherwise)",
             "auto",
             {"never", "always", "auto"}},
            {"memory_reserve", "0.05", "share of a device's memory left to driver, libraries and fragmentation"},
            keepOption()};
}

Result<PlanReport> GpipePlanner::plan(const Problem &problem, const Options &options, Progress &progress) const
{
    if (Status status = validate(problem); !status)
        return status.error();
    OptionReader reader(options, this->options());
    Settings settings{static_cast<std::size_t>(reader.integer("stages", 0, 1000000)),
                      reader.choice("recompute"),
                      reader.number("memory_reserve", 0, 0.9),
                      {}};
    if (!reader.status())
        return reader.status().error();
    Result<KeptStages> keep = keptStages(options, problem.subject.layers().size());
    if (!keep)
        return keep.error();
    settings.keep = *std::move(keep);
    for (const KeptStages::Run &run : settings.keep.runs)
        if (run.devices > 1)
            return badInput(fmt::format("gpipe puts each stage on one device, but layers {}-{} are kept on {}; plan "
                                        "with dapple or auto, or keep them without \":{}\"",
                                        run.first, run.last - 1, run.devices, run.devices));
    const std::size_t most = std::min(problem.subject.layers().size(), problem.subject.cluster->devices().size());
    if (settings.stages > most)
        return badInput(fmt::format("option stages={} is more than {} layers on {} devices allow; give at most {}",
                                    settings.stages, problem.subject.layers().size(),
                                    problem.subject.cluster->devices().size(), most));
    if (progress.stopped())
        return cancelled("stopped before a plan was found");
    const std::size_t count = settings.stages == 0
        ? std::min(most, settings.keep.mostStages(problem.subject.layers().size()))
        : settings.stages;
    plan::Plan plan = emptyPlan(problem, "gpipe", options);
    plan.microBatches = microBatchesFor(problem, count);
    plan.schedule.kind = plan::ScheduleKind::GPipe;
    plan.stages = balancedStages(problem, count, samplesOf(plan), settings.keep);
    const auto empty = [](const plan::Stage &stage) { return stage.firstLayer >= stage.lastLayer; };
    if (!settings.keep.allows(plan) || std::any_of(plan.stages.begin(), plan.stages.end(), empty))
        return infeasible(fmt::format("no cut into {} stages keeps {}; keep less, or set another number of stages",
                                      count, textOf(settings.keep)));
    if (Status status = fit(problem, settings, plan); !status)
        return status.error();
    plan.estimate = estimateOf(problem, plan);
    Result<PlanReport> report = finish(std::move(plan), problem);
    if (report && !report->predicted.fits)
        return memoryBinds(*problem.subject.cluster, limitOf(report->plan, problem.subject, report->predicted));
    progress.report(1, "done");
    return report;
}

} // namespace planloom::planners::gpipe
