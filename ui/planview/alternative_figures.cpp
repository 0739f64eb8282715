// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/alternative_figures.h"

#include "engine/compile/compile.h"
#include "engine/simulate/simulate.h"
#include "planners/common/alternatives.h"

#include <algorithm>

namespace planloom::ui {

namespace {

/// Bytes of activations and their gradients that cross the cuts between stages on different devices. Where a stage
/// shares its tensors among devices, each of these gets them.
double transferBytes(const plan::Plan &plan, const plan::Subject &subject)
{
    constexpr double kThereAndBack = 2;
    double bytes = 0;
    for (std::size_t s = 1; s < plan.stages.size(); ++s) {
        const plan::Stage &stage = plan.stages[s];
        if (stage.devices == plan.stages[s - 1].devices)
            continue;
        const double cut =
            subject.layers().cutBytes(*subject.graph, stage.firstLayer, static_cast<double>(plan.globalBatch)).value();
        bytes += kThereAndBack * cut * static_cast<double>(stage.shards());
    }
    return plan.precision == plan::Precision::BFloat16 ? bytes / 2 : bytes;
}

/// Of all ranks, those that a folded rank stands for as well.
double collectiveBytes(const program::Program &program)
{
    double bytes = 0;
    for (const program::Task &task : program.tasks)
        bytes += static_cast<double>(task.bytes()) * program.shareOfSteps(task)
            * static_cast<double>(program.ranks[task.rank.index()].standsFor);
    return bytes;
}

} // namespace

std::optional<AlternativeFigures> alternativeFigures(const plan::Plan &plan, const plan::Subject &subject)
{
    const plan::Subject own = plan::inPrecision(subject, plan.precision);
    const auto program = compile::compilePlan(plan, own, {.bodies = false, .fold = true});
    if (!program)
        return std::nullopt;
    const auto simulation = simulate::simulate(*program, *own.cluster, {.trace = false, .memory = false});
    if (!simulation)
        return std::nullopt;
    AlternativeFigures figures;
    figures.seconds = simulation->report.iterationSeconds;
    figures.peakBytes = planners::fullestBytes(simulation->report);
    figures.bubble = simulation->report.bubbleFraction;
    figures.sentBytes = collectiveBytes(*program) + transferBytes(plan, own);
    figures.fits = simulation->report.fits;
    return figures;
}

std::vector<bool> paretoFront(const std::vector<std::optional<AlternativeFigures>> &all)
{
    std::vector<bool> front(all.size(), false);
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (!all[i])
            continue;
        const auto beats = [&](std::size_t j) {
            if (j == i || !all[j] || all[j]->seconds > all[i]->seconds || all[j]->peakBytes > all[i]->peakBytes)
                return false;
            const bool equal = all[j]->seconds == all[i]->seconds && all[j]->peakBytes == all[i]->peakBytes;
            return !equal || j < i;
        };
        bool beaten = false;
        for (std::size_t j = 0; j < all.size() && !beaten; ++j)
            beaten = beats(j);
        front[i] = !beaten;
    }
    return front;
}

} // namespace planloom::ui
