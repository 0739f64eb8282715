// SPDX-License-Identifier: Apache-2.0
#include "planners/common/memory_policy.h"

#include "engine/compile/compile.h"
#include "engine/compile/memory_figures.h"
#include "engine/plan/validate.h"
#include "planners/common/changed_candidates.h"
#include "planners/common/memory.h"
#include "planners/common/simulated_estimate.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

namespace planloom::planners {
namespace {

constexpr std::int64_t kGranule = 64; ///< of places in an arena

Status setPolicy(plan::Plan &plan, const Problem &problem, const MemoryRequest &request)
{
    for (plan::Stage &stage : plan.stages)
        stage.memory = request.memory;
    return request.fitsDevice && request.memory.limits() ? fitBudgets(plan, problem) : Status{};
}

} // namespace

Error withBudgetThatDoes(Error error, plan::Plan plan, const Problem &problem, const plan::Memory &asked)
{
    const bool isOfBudget =
        error.code == ErrorCode::BadInput && error.message.find("larger budget") != std::string::npos;
    if (!isOfBudget || !asked.limits())
        return error;
    constexpr double kMost = 65536;
    for (double factor = 1.02; factor < kMost; factor *= 1.12) {
        plan::Memory larger = asked;
        larger.budgetShare = std::min(1.0, std::ceil(asked.budgetShare * factor * 100) / 100);
        larger.budgetBytes = std::llround(static_cast<double>(asked.budgetBytes) * factor);
        for (plan::Stage &stage : plan.stages)
            stage.memory = larger;
        if (compile::compilePlan(plan, problem.subject, {.bodies = false, .fold = true})) {
            const auto budget =
                std::ranges::find(plan::memorySettings(), std::string_view("budget"), &plan::MemorySetting::name);
            error.message += fmt::format("; budget={} would do", budget->get(larger));
            return error;
        }
        if (larger.budgetBytes == 0 && larger.budgetShare == 1)
            break;
    }
    return error;
}

namespace {

/// What the policy costs, by the plan's own Program.
Status estimateMemory(PlanReport &report, const Problem &problem, double baseSeconds)
{
    const auto program = compile::compilePlan(report.plan, problem.subject, {.bodies = false});
    if (!program)
        return program.error();
    const auto figures = compile::memoryFigures(report.plan, problem.subject);
    if (!figures)
        return figures.error();
    double recompute = 0;
    double swapped = 0;
    double operators = 0;
    for (const program::Task &task : program->tasks) {
        if (const auto *swap = task.as<program::Swap>())
            swapped += static_cast<double>(program->copyOf(*swap).bytes);
        const auto *run = task.as<program::Compute>();
        if (run == nullptr || !run->isPooled() || run->pass != program::Pass::Recompute)
            continue;
        recompute += task.duration.value();
        operators += run->lastCall - run->firstCall;
    }
    plan::Estimate &estimate = report.plan.estimate;
    estimate["memory_base_seconds"] = baseSeconds;
    estimate["memory_recompute_seconds"] = recompute;
    estimate["memory_swapped_bytes"] = swapped;
    estimate["memory_recomputed_operators"] = operators;
    estimate["memory_stall_seconds"] = figures->stallSeconds;
    estimate["memory_fragmented"] = static_cast<double>(figures->fragmented);
    return {};
}

} // namespace

Status fitBudgets(plan::Plan &plan, const Problem &problem)
{
    plan::Plan whole = plan; // what is beside the pool depends on no policy, and this one costs least
    for (plan::Stage &stage : whole.stages)
        if (stage.memory.limits()) {
            const bool hostStates = stage.memory.hostStates;
            const bool hostParameters = stage.memory.hostParameters;
            stage.memory = {};
            stage.memory.filter = plan::MemoryFilter::Delta;
            stage.memory.budgetShare = 1;
            stage.memory.hostStates = hostStates;
            stage.memory.hostParameters = hostParameters;
        }
    const auto program = compile::compilePlan(whole, problem.subject, {.bodies = false, .fold = true});
    if (!program)
        return program.error();
    for (const program::Body &body : program->bodies) {
        plan::Memory &memory = plan.stages[body.stage.index()].memory;
        if (!memory.limits())
            continue;
        const program::Rank &rank = program->ranks[body.rank.index()];
        const std::int64_t pool = body.pools[static_cast<std::size_t>(program::Area::Pool)].bytes();
        const std::int64_t left =
            problem.subject.cluster->typeOf(rank.device).memory.value() - (rank.arenaBytes - pool);
        if (left <= 0)
            return infeasible(fmt::format("{} leaves no room for activations on {}; plan for more devices, or with "
                                          "smaller micro-batches",
                                          plan::stageLabel(plan, body.stage.index()),
                                          problem.subject.cluster->device(rank.device).name));
        const std::int64_t budget = left / kGranule * kGranule;
        memory.budgetBytes = memory.budgetBytes == 0 ? budget : std::min(memory.budgetBytes, budget);
    }
    return {};
}

Result<MemoryRequest> memoryRequest(std::string_view text)
{
    constexpr std::string_view kFit = "budget=fit";
    std::string settings(text);
    MemoryRequest request;
    if (const std::size_t at = settings.find("," + std::string(kFit)); at != std::string::npos) {
        const std::size_t end = at + 1 + kFit.size();
        if (end == settings.size() || settings[end] == ',') {
            settings.replace(at, end - at, ",budget=100%");
            request.fitsDevice = true;
        }
    }
    auto memory = plan::memoryFromText(settings);
    if (!memory)
        return memory.error();
    request.memory = *std::move(memory);
    return request;
}

Result<PlanReport> withMemoryPolicy(PlanReport report, const Problem &problem, const MemoryRequest &request)
{
    const double base = report.predicted.iterationSeconds;
    if (Status set = setPolicy(report.plan, problem, request); !set)
        return set.error();
    auto changed = finish(report.plan, problem);
    if (!changed && !request.fitsDevice)
        return withBudgetThatDoes(changed.error(), std::move(report.plan), problem, request.memory);
    if (!changed)
        return changed;
    if (request.fitsDevice && request.memory.limits() && !changed->predicted.fits)
        return memoryBinds(*problem.subject.cluster, limitOf(changed->plan, problem.subject, changed->predicted),
                           fmt::format(", with what memory policy {} cannot take from the device,",
                                       plan::name(request.memory.filter)));
    changed->notes = std::move(report.notes);
    changed->complete = report.complete;
    if (request.memory.limits())
        takeSimulated(*changed);
    if (Status estimated = estimateMemory(*changed, problem, base); !estimated)
        return estimated.error();
    const auto samePolicy = [&](plan::Plan &candidate) { return setPolicy(candidate, problem, request); };
    changed->alternatives = changedCandidates(std::move(report.alternatives), problem, samePolicy);
    changed->pareto = changedCandidates(std::move(report.pareto), problem, samePolicy);
    return changed;
}

} // namespace planloom::planners
