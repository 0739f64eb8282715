// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/plan_search.h"

#include "engine/import/setup/setup.h"
#include "engine/plan/admm_training.h"
#include "planners/common/explain.h"
#include "planners/manual/from_setup.h"
#include "planners/registry.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <utility>

namespace planloom::ui {

namespace {

planners::Problem problemOf(const PlanRequest &request, const plan::Subject &subject)
{
    planners::Problem problem;
    problem.subject = plan::inPrecision(subject, request.precision);
    problem.globalBatch = request.globalBatch;
    problem.microBatch = request.microBatch;
    problem.optimizer = request.optimizer;
    problem.precision = request.precision;
    problem.zero = request.zero;
    return problem;
}

/// With the request's exchange. Any thread.
Result<planners::PlanReport> search(const planners::Planner &planner, const planners::Problem &problem,
                                    const PlanRequest &request, Progress &progress)
{
    const auto begin = std::chrono::steady_clock::now();
    auto report = planners::planAndExplain(planner, problem, request.options, progress);
    if (!report)
        return report;
    report->plan.planner.searchSeconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!request.exchange)
        return report;
    auto changed = planners::withExchange(*std::move(report), problem, *request.exchange);
    if (!changed)
        return changed;
    return planners::explained(*std::move(changed), problem);
}

/// Any thread.
FoundPlan searched(const planners::Planner &planner, planners::Problem problem, const PlanRequest &request,
                   Progress &progress)
{
    SampledGraph graph;
    if (samplesGraph(planner.name())) {
        if (request.graph.isEmpty())
            return {badInput("planner " + planner.name()
                             + " needs the graph that is sampled; choose its folder among the planner's options"),
                    problem.subject,
                    planner.name(),
                    {}};
        auto read = readSampledGraph(request.graph);
        if (!read)
            return {read.error(), problem.subject, planner.name(), {}};
        graph = *std::move(read);
        problem.sampledGraph = graph.data;
        problem.sampledGraphHash = graph.sha256;
    }
    return {search(planner, problem, request, progress), problem.subject, planner.name(), {}, std::move(graph)};
}

/// How workers of an open plan that trains by ADMM are shared out and wait, as it was edited since it was planned.
void takeSettings(const plan::Plan &plan, planners::Options &options)
{
    const admm::Settings &settings = *plan.admm;
    const bool serves = settings.parallel == admm::Parallel::Asynchronous;
    const auto ranges = static_cast<std::size_t>(std::max(settings.timeRanges, 1));
    options["workers"] = std::to_string(plan.stages.front().devices.size() / ranges);
    options["time_ranges"] = std::to_string(ranges);
    options["order"] = plan::name(settings.order);
    options["duals"] = plan::name(settings.duals);
    options["subproblems"] = plan::name(settings.subproblems);
    options["parallel"] = plan::name(settings.parallel);
    options["barrier"] = std::to_string(serves ? settings.barrier : 0);
    options["delay"] = std::to_string(serves ? settings.delay : 0);
    options["mu"] = fmt::format("{:g}", settings.mu);
    options["gamma"] = fmt::format("{:g}", settings.gamma);
    options["rho"] = fmt::format("{:g}", settings.rho);
    options["ridge"] = fmt::format("{:g}", settings.ridge);
    options["proximal"] = fmt::format("{:g}", settings.proximal);
    options["newton_steps"] = std::to_string(settings.newtonSteps);
    options["tanh_steps"] = std::to_string(settings.tanhSteps);
    options["shards"] = std::to_string(std::max(settings.shards, 1));
    options["switch_after"] = std::to_string(plan.then ? plan.then->after : 0);
}

/// Any thread.
FoundPlan planSetup(const QString &path, const plan::Subject &subject, Progress &progress)
{
    const auto setup = import::loadSetup(path.toStdString());
    if (!setup)
        return {setup.error(), subject, {}, {}};
    const auto request = planners::manual::requestFrom(*setup, subject);
    if (!request)
        return {request.error(), subject, {}, {}};
    std::vector<std::string> notes = setup->notes;
    notes.insert(notes.end(), request->notes.begin(), request->notes.end());
    return {planners::planAndExplain(**planners::findPlanner("manual"), request->problem, request->options, progress),
            request->problem.subject, setup->format, std::move(notes)};
}

} // namespace

bool samplesGraph(std::string_view name) { return name == "gnn"; }

const plan::Optimizer *optimizerOfGradients(const plan::Plan &plan)
{
    if (plan.then)
        return &plan.then->optimizer;
    return plan.admm ? nullptr : &plan.optimizer;
}

PlanRequest withSettingsOf(const plan::Plan &plan, PlanRequest request)
{
    request.globalBatch = plan.globalBatch;
    if (const plan::Optimizer *optimizer = optimizerOfGradients(plan))
        request.optimizer = *optimizer;
    request.precision = plan.precision;
    request.zero = 0;
    for (const plan::Stage &stage : plan.stages)
        request.zero = std::max(request.zero, stage.zero);
    if ((plan.admm || plan.job) && request.planner == plan.planner.name) {
        request.options = plan.planner.options;
        if (plan.admm)
            takeSettings(plan, request.options);
    }
    request.exchange.reset();
    if (plan::textOf(plan.exchange) != plan::textOf(plan::Exchange{}) || !plan.exchange.groups.empty())
        request.exchange = planners::ExchangeRequest{plan.exchange, false};
    return request;
}

PlanSearch::PlanSearch(QObject *parent) : QObject(parent)
{
    connect(&m_job, &Job::changed, this, &PlanSearch::changed);
}

bool PlanSearch::start(const planners::Planner &planner, const PlanRequest &request, const plan::Subject &subject,
                       const plan::Plan *open)
{
    planners::Problem problem = problemOf(request, subject);
    if (planner.takesAnnotations() && open)
        problem.annotations = open->annotations;
    const QString title = tr("Planning with %1").arg(QString::fromStdString(request.planner));
    return m_job.start(title, [this, &planner, problem, request](Progress &progress) -> Job::Completion {
        return [this, result = searched(planner, problem, request, progress)] { Q_EMIT found(result); };
    });
}

bool PlanSearch::startSetup(const QString &path, const plan::Subject &subject)
{
    return m_job.start(tr("Planning from %1").arg(path), [this, path, subject](Progress &progress) -> Job::Completion {
        return [this, result = planSetup(path, subject, progress)] { Q_EMIT found(result); };
    });
}

} // namespace planloom::ui
