// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/selection.h"

#include "engine/schedule/schedule.h"

#include <algorithm>
#include <utility>

namespace planloom::ui {

Selection selectionOfStage(StageId stage, const plan::Document *document)
{
    Selection selection;
    selection.stage = stage;
    if (document && stage.valid() && stage.index() < document->plan.stages.size()) {
        const plan::Stage &picked = document->plan.stages[stage.index()];
        selection.layers = {picked.firstLayer, picked.lastLayer};
    }
    return selection;
}

Selection selectionOfDevice(DeviceId device, const plan::Document *document)
{
    Selection selection;
    selection.device = device;
    if (!document)
        return selection;
    const auto &stages = document->plan.stages;
    const auto holds = [device](const plan::Stage &s) {
        return std::find(s.devices.begin(), s.devices.end(), device) != s.devices.end();
    };
    const auto found = std::find_if(stages.begin(), stages.end(), holds);
    if (found != stages.end()) {
        selection.stage = StageId(found - stages.begin());
        selection.layers = {found->firstLayer, found->lastLayer};
    }
    return selection;
}

Selection selectionOfTask(const std::string &task, DeviceId device)
{
    Selection selection;
    selection.task = task;
    selection.device = device;
    if (const auto stage = schedule::stageOfTask(task))
        selection.stage = StageId(*stage);
    return selection;
}

Selection clamped(Selection selection, const plan::Document &document)
{
    if (selection.stage.valid() && selection.stage.index() >= document.plan.stages.size()) {
        selection.stage = {};
        selection.task.clear(); // it is of that stage
    }
    if (selection.device.valid() && selection.device.index() >= document.subject.cluster->devices().size())
        selection.device = {};
    if (selection.layers.last > document.subject.layers().size())
        selection.layers = {};
    return selection;
}

Selection carriedOver(Selection selection, const plan::Document &before, const plan::Document &after)
{
    const bool ofStage = selection.stage.valid() && !selection.layers.empty()
        && selection.layers == selectionOfStage(selection.stage, &before).layers;
    const bool ofDevice = ofStage && selection.device.valid() && selection.task.empty()
        && selection.stage == selectionOfDevice(selection.device, &before).stage;
    const cluster::Cluster &old = *before.subject.cluster;
    if (before.subject.cluster != after.subject.cluster && selection.device.valid()
        && selection.device.index() < old.devices().size())
        selection.device = after.subject.cluster->find(old.device(selection.device).name);
    selection = clamped(std::move(selection), after);
    if (ofDevice && selection.device.valid()) {
        Selection next = selectionOfDevice(selection.device, &after);
        next.time = selection.time;
        return next;
    }
    if (ofStage) {
        selection.layers = selectionOfStage(selection.stage, &after).layers;
        return selection;
    }
    if (selection.layers.empty() || !selection.stage.valid() || !selection.task.empty())
        return selection;
    const auto &stages = after.plan.stages; // single layers: they may lie in another stage now
    for (std::size_t s = 0; s < stages.size(); ++s)
        if (selection.layers.first >= stages[s].firstLayer && selection.layers.first < stages[s].lastLayer)
            selection.stage = StageId(static_cast<std::int64_t>(s));
    return selection;
}

} // namespace planloom::ui
