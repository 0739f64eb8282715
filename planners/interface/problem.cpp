// SPDX-License-Identifier: Apache-2.0
#include "planners/interface/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace planloom::planners {

bool Planner::fits(const Problem &problem, const Options &options, Progress &progress) const
{
    const auto report = plan(problem, options, progress);
    return report && report->predicted.fits;
}

Status validate(const Problem &problem, Annotations annotations)
{
    const plan::Subject &subject = problem.subject;
    if (!subject.graph || !subject.cluster || !subject.costs)
        return badInput("the problem has no model or no cluster; load both before planning");
    if (subject.layers().size() == 0)
        return badInput("the model has no layers; choose a model with at least one operator");
    if (!subject.graph->loss().valid() && !graph::isLayerProfile(*subject.graph))
        return badInput(
            "the model has no loss, so there is no backward pass to plan; choose one with --loss, or export "
            "the model with its loss as a scalar output");
    if (problem.globalBatch < 1)
        return badInput(
            fmt::format("the batch is {}; give the samples of one training step, 1 or more", problem.globalBatch));
    if (problem.microBatch && (*problem.microBatch < 1 || *problem.microBatch > problem.globalBatch))
        return badInput(
            fmt::format("the micro-batch is {}; give 1 to {}, the batch", *problem.microBatch, problem.globalBatch));
    const plan::Optimizer &optimizer = problem.optimizer;
    if (!std::isfinite(optimizer.learningRate) || !std::isfinite(optimizer.weightDecay))
        return badInput("the optimizer has a figure that is not finite; correct its learning rate or decay");
    if (const Status settings = optimizer.rule.check(); !settings)
        return settings;
    if (problem.zero < 0 || problem.zero > 3)
        return badInput(fmt::format("there is no ZeRO level {}; give 0 (none) to 3", problem.zero));
    if (problem.zero > 1 && graph::isLayerProfile(*subject.graph))
        return badInput(fmt::format("ZeRO level {} gathers and scatters within layers, which layer profile {} does not "
                                    "describe; use level 0 or 1",
                                    problem.zero, subject.graph->name()));
    if (problem.annotations.empty())
        return {};
    if (annotations == Annotations::Refused)
        return badInput(
            fmt::format("this planner does not support annotations such as {}; plan with whale, or leave them out",
                        plan::toText(problem.annotations.front())));
    const auto annotated = plan::annotatedLayers(problem.annotations, *subject.graph, subject.layers());
    return annotated ? Status{} : Status(annotated.error());
}

plan::Plan emptyPlan(const Problem &problem, const std::string &planner, const Options &options)
{
    plan::Plan plan;
    plan.modelName = problem.subject.graph->name();
    plan.modelSource = problem.subject.modelSource;
    plan.clusterName = problem.subject.cluster->name();
    plan.planner.name = planner;
    plan.planner.options = options;
    plan.annotations = problem.annotations;
    plan.globalBatch = problem.globalBatch;
    plan.optimizer = problem.optimizer;
    plan.precision = problem.precision;
    return plan;
}

} // namespace planloom::planners
