// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/area_lives.h"

#include <algorithm>

namespace planloom::compile {
namespace {

using program::Effect;
using Action = Effect::Action;

constexpr Moment sent(Pass pass) { return {pass, true}; }
constexpr Moment run(Pass pass) { return {pass, false}; }

std::vector<Area> readBy(const Moment &moment, bool receives)
{
    if (moment.transfer && receives)
        return {};
    if (moment.transfer) // an output that is kept lies in the frame, a gradient that is passed on where it came in
        return moment.pass == Pass::Forward ? std::vector{Area::Outbox, Area::Frame}
                                            : std::vector{Area::GradientOutbox, Area::GradientInbox};
    switch (moment.pass) {
    case Pass::Forward: return {Area::Inbox};
    case Pass::Recompute: return {Area::Inbox, Area::Frame};
    case Pass::Backward: return {Area::Inbox, Area::Frame, Area::GradientInbox};
    case Pass::WeightGradient: return {Area::Inbox, Area::GradientInbox, Area::WeightFrame, Area::WeightStash};
    }
    return {};
}

std::vector<Area> writtenBy(const Moment &moment, bool receives)
{
    if (moment.transfer)
        return !receives                   ? std::vector<Area>{}
            : moment.pass == Pass::Forward ? std::vector{Area::Inbox}
                                           : std::vector{Area::GradientInbox};
    switch (moment.pass) {
    case Pass::Forward: return {Area::Frame, Area::Outbox, Area::WeightStash};
    case Pass::Recompute: return {Area::WeightFrame};
    case Pass::Backward: return {Area::GradientOutbox, Area::WeightFrame};
    case Pass::WeightGradient: return {};
    }
    return {};
}

/// True if @p area is what a transfer on this side of the cut moves.
bool isEnd(Area area, bool receives)
{
    const bool in = area == Area::Inbox || area == Area::GradientInbox;
    return in == receives;
}

/// Workspace lives within a pass; a recomputed one until its backward has ended.
bool takesWorkspace(const Moment &moment, const StageHabits &habits)
{
    return !moment.transfer && !(moment.pass == Pass::Backward && habits.recomputes);
}

bool givesWorkspace(const Moment &moment) { return !moment.transfer && moment.pass != Pass::Recompute; }

} // namespace

std::vector<AreaLife> areaLives(const StageHabits &habits)
{
    const Moment closing = run(habits.splits ? Pass::WeightGradient : Pass::Backward);
    std::vector<AreaLife> lives{
        {Area::Inbox, sent(Pass::Forward), closing},
        {Area::Frame, run(Pass::Forward), run(Pass::Backward)},
        {Area::Outbox, run(Pass::Forward), sent(Pass::Forward)},
        {Area::GradientInbox, sent(Pass::Backward), closing},
        {Area::GradientOutbox, run(Pass::Backward), habits.keepsSent ? closing : sent(Pass::Backward)},
    };
    if (habits.splits) {
        lives.push_back({Area::WeightStash, run(Pass::Forward), closing});
        lives.push_back({Area::WeightFrame, run(Pass::Backward), closing});
    }
    return lives;
}

std::vector<Effect> effectsAt(const Moment &moment, const StageHabits &habits, BodyId body, bool receives, bool opens,
                              bool closes)
{
    std::vector<Effect> effects;
    const auto add = [&](Action action, Area area) { effects.push_back({action, area, body}); };
    const std::vector<AreaLife> lives = areaLives(habits);
    const auto has = [&](Area area) {
        return std::any_of(lives.begin(), lives.end(), [&](const AreaLife &life) { return life.area == area; });
    };
    for (const AreaLife &life : lives)
        if (opens && life.taken == moment && (!moment.transfer || isEnd(life.area, receives)))
            add(Action::Takes, life.area);
    if (opens && takesWorkspace(moment, habits))
        add(Action::Takes, Area::Workspace);
    for (const Area area : readBy(moment, receives))
        if (opens && has(area))
            add(Action::Reads, area);
    for (const Area area : writtenBy(moment, receives))
        if (closes && has(area))
            add(Action::Writes, area);
    for (const AreaLife &life : lives)
        if (closes && life.given == moment && (!moment.transfer || isEnd(life.area, receives)))
            add(Action::Gives, life.area);
    if (closes && givesWorkspace(moment))
        add(Action::Gives, Area::Workspace);
    return effects;
}

} // namespace planloom::compile
