// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/task_links.h"

#include <algorithm>

namespace planloom::ui {

namespace {

using Slice = TimelineModel::Slice;

/// Those that start together with @p slice and are in the trace; itself first.
std::vector<Slice> unitOf(const TimelineModel &model, const simulate::Causes &causes, const Slice &slice)
{
    std::vector<Slice> unit{slice};
    const trace::Record record = model.record(slice);
    for (const std::int32_t member : causes.members(model.task(slice).group)) {
        if (member == record.task)
            continue;
        if (const auto found = model.sliceIn(slice.measured, member, record.step))
            unit.push_back(*found);
    }
    return unit;
}

std::int64_t endOf(const trace::Record &record) { return record.start + record.duration; }

void add(std::vector<TaskLinks::Link> &links, const TimelineModel &model, const Slice &from, const Slice &to)
{
    if (links.size() < TaskLinks::kMost)
        links.push_back({from, to, endOf(model.record(from)) == model.record(to).start});
}

/// By what another program's trace tells.
TaskLinks launchesOf(const TimelineModel &model, const Slice &slice)
{
    const TimelineModel::Related related = model.related(slice, TaskLinks::kMost);
    TaskLinks links;
    links.causeCount = related.callers.size();
    links.effectCount = related.caused.size();
    for (const Slice &from : related.callers)
        links.causes.push_back({from, slice, false});
    for (const Slice &to : related.caused)
        links.effects.push_back({slice, to, false});
    return links;
}

} // namespace

TaskLinks TaskLinks::of(const TimelineModel &model, const Slice &slice)
{
    TaskLinks links;
    const simulate::Causes *causes = model.causes(slice.measured);
    if (causes == nullptr)
        return launchesOf(model, slice);
    if (!causes->has(model.record(slice).task))
        return links;
    const std::vector<Slice> unit = unitOf(model, *causes, slice);
    for (const Slice &member : unit) {
        const trace::Record record = model.record(member);
        if (member != slice && links.members.size() < kMost)
            links.members.push_back(member);
        for (const auto &cause : causes->of(record.task)) {
            ++links.causeCount;
            if (const auto from = model.sliceIn(slice.measured, cause.task, record.step - cause.steps))
                add(links.causes, model, *from, member);
        }
    }
    std::vector<std::int32_t> tasks;
    for (const Slice &member : unit)
        tasks.push_back(model.record(member).task);
    const std::int32_t step = model.record(slice).step;
    for (const auto &effect : causes->effectsOf(tasks)) {
        ++links.effectCount;
        const Slice &from = unit[static_cast<std::size_t>(std::ranges::find(tasks, effect.cause) - tasks.begin())];
        if (const auto to = model.sliceIn(slice.measured, effect.task, step + effect.steps))
            add(links.effects, model, from, *to);
    }
    return links;
}

std::optional<Slice> causeOfStart(const TimelineModel &model, const Slice &slice)
{
    const simulate::Causes *causes = model.causes(slice.measured);
    if (causes == nullptr) {
        const TimelineModel::Related related = model.related(slice, 1);
        return related.callers.empty() ? std::nullopt : std::optional(related.callers.front());
    }
    if (!causes->has(model.record(slice).task))
        return std::nullopt;
    const std::vector<Slice> unit = unitOf(model, *causes, slice);
    std::int64_t start = model.record(slice).start;
    for (const Slice &member : unit)
        start = std::max(start, model.record(member).start);
    std::optional<Slice> best;
    const auto offer = [&](const std::optional<Slice> &before) {
        if (before && (!best || endOf(model.record(*before)) > endOf(model.record(*best))))
            best = before;
    };
    for (const Slice &member : unit) { // the one that came last
        const trace::Record record = model.record(member);
        if (record.start != start)
            continue;
        for (const auto &cause : causes->of(record.task))
            offer(model.sliceIn(slice.measured, cause.task, record.step - cause.steps));
    }
    for (const Slice &member : unit)
        if (model.record(member).start == start)
            offer(model.onRow(member, -1));
    return best;
}

std::optional<Slice> nextEffect(const TimelineModel &model, const Slice &slice)
{
    const TaskLinks links = TaskLinks::of(model, slice);
    std::optional<Slice> best;
    for (const TaskLinks::Link &effect : links.effects)
        if (!best || model.record(effect.to).start < model.record(*best).start)
            best = effect.to;
    return best;
}

} // namespace planloom::ui
