// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/stage_locks.h"

#include "planners/registry.h"
#include "ui/widgets/text.h"

#include <algorithm>

namespace planloom::ui {

namespace {

using planners::KeptStages;

bool takesLocks(const planners::Planner &planner)
{
    const auto options = planner.options();
    return std::any_of(options.begin(), options.end(),
                       [](const planners::OptionInfo &option) { return option.key == planners::kKeepOption; });
}

bool setLocks(StudioState &state, const QString &what, KeptStages locks)
{
    std::sort(locks.runs.begin(), locks.runs.end(),
              [](const KeptStages::Run &a, const KeptStages::Run &b) { return a.first < b.first; });
    std::sort(locks.cuts.begin(), locks.cuts.end());
    return state.editPlan(what, [&](plan::Plan &plan) {
        if (locks.empty())
            plan.planner.options.erase(planners::kKeepOption);
        else
            plan.planner.options[planners::kKeepOption] = planners::textOf(locks);
    });
}

/// Whether the plan is of stages one behind the other that some planner could lay out anew.
bool hasPipeline(StudioState &state)
{
    const auto &document = state.document();
    if (document && !document->plan.admm && !document->plan.job)
        return true;
    state.say(MessageLevel::Warning,
              document ? QObject::tr("A plan of this training has no stages that planning again could move.")
                       : QObject::tr("There is no plan yet; find one with a planner first."));
    return false;
}

} // namespace

KeptStages locksOf(const plan::Document &document)
{
    auto kept = planners::keptStages(document.plan.planner.options, document.subject.layers().size());
    if (!kept)
        return {};
    const auto &stages = document.plan.stages;
    std::erase_if(kept->runs, [&](const KeptStages::Run &run) {
        return std::none_of(stages.begin(), stages.end(), [&](const plan::Stage &stage) {
            return stage.firstLayer == run.first && stage.lastLayer == run.last
                && (run.devices == 0 || run.devices == stage.devices.size());
        });
    });
    std::erase_if(kept->cuts, [&](std::size_t cut) {
        return std::none_of(stages.begin(), stages.end(),
                            [cut](const plan::Stage &stage) { return stage.firstLayer == cut; });
    });
    return *std::move(kept);
}

bool stageLocked(const KeptStages &locks, const plan::Stage &stage)
{
    return std::any_of(locks.runs.begin(), locks.runs.end(), [&](const KeptStages::Run &run) {
        return run.first == stage.firstLayer && run.last == stage.lastLayer;
    });
}

bool cutLocked(const KeptStages &locks, std::size_t layer)
{
    return std::find(locks.cuts.begin(), locks.cuts.end(), layer) != locks.cuts.end()
        || std::any_of(locks.runs.begin(), locks.runs.end(),
                       [layer](const KeptStages::Run &run) { return run.first == layer || run.last == layer; });
}

bool toggleStageLock(StudioState &state, std::size_t stage)
{
    if (!hasPipeline(state) || stage >= state.document()->plan.stages.size())
        return false;
    const plan::Stage &which = state.document()->plan.stages[stage];
    KeptStages locks = locksOf(*state.document());
    const bool locked = stageLocked(locks, which);
    std::erase_if(locks.runs, [&](const KeptStages::Run &run) { return run.first == which.firstLayer; });
    if (!locked)
        locks.runs.push_back({which.firstLayer, which.lastLayer, which.devices.size()});
    return setLocks(state, (locked ? QObject::tr("Free stage %1") : QObject::tr("Keep stage %1")).arg(stage),
                    std::move(locks));
}

bool toggleBoundaryLock(StudioState &state, std::size_t boundary)
{
    if (!hasPipeline(state) || boundary + 1 >= state.document()->plan.stages.size())
        return false;
    const std::size_t layer = state.document()->plan.stages[boundary + 1].firstLayer;
    KeptStages locks = locksOf(*state.document());
    const bool free = std::erase(locks.cuts, layer) > 0;
    if (!free && cutLocked(locks, layer)) {
        state.say(MessageLevel::Info, QObject::tr("The boundary is kept with its stage; free that."));
        return false;
    }
    if (!free)
        locks.cuts.push_back(layer);
    return setLocks(state,
                    (free ? QObject::tr("Free the boundary of stages %1 and %2")
                          : QObject::tr("Keep the boundary of stages %1 and %2"))
                        .arg(boundary)
                        .arg(boundary + 1),
                    std::move(locks));
}

QString plannersWithLocks()
{
    QStringList names;
    for (const planners::Planner *planner : planners::allPlanners())
        if (takesLocks(*planner))
            names << qt(planner->name());
    return names.join(QStringLiteral(", "));
}

bool planWithLocks(StudioState &state)
{
    if (!hasPipeline(state))
        return false;
    const plan::Plan &plan = state.document()->plan;
    const KeptStages locks = locksOf(*state.document());
    if (locks.empty()) {
        state.say(MessageLevel::Warning,
                  QObject::tr("Nothing is kept yet; tick Keep beside a stage, or press K at a boundary, first."));
        return false;
    }
    PlanRequest request;
    const auto own = planners::findPlanner(plan.planner.name);
    if (own && takesLocks(**own)) {
        request.planner = plan.planner.name;
        request.options = plan.planner.options;
    } else {
        request.planner = "auto";
        state.say(MessageLevel::Info,
                  QObject::tr(
                      "%1 lays out all stages anew and cannot keep any; auto plans instead. Planners that can: %2.")
                      .arg(qt(plan.planner.name), plannersWithLocks()));
    }
    request.options[planners::kKeepOption] = planners::textOf(locks);
    return state.runPlanner(state.requestLikeDocument(request));
}

} // namespace planloom::ui
