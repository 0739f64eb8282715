// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/selection.h"

#include "engine/schedule/schedule.h"

#include <algorithm>

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
    if (selection.stage.valid() && selection.stage.index() >= document.plan.stages.size())
        selection.stage = {};
    if (selection.device.valid() && selection.device.index() >= document.subject.cluster->devices().size())
        selection.device = {};
    if (selection.layers.last > document.subject.layers().size())
        selection.layers = {};
    return selection;
}

} // namespace planloom::ui
