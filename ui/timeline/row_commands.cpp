// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/row_commands.h"

#include "ui/widgets/text.h"

#include <QObject>

#include <string>

namespace planloom::ui {

namespace {

/// Takes @p value out of @p set, or puts it there. True if it is there now.
template <class Set, class Value>
bool turnOver(Set &set, const Value &value)
{
    if (set.erase(value) > 0)
        return false;
    set.insert(value);
    return true;
}

} // namespace

std::vector<RowCommand> rowCommands(const TimelineModel &model, std::optional<std::size_t> row)
{
    using What = RowCommand::What;
    std::vector<RowCommand> commands;
    const RowChoices &now = model.choices();
    const auto add = [&](What what, const QString &text, const RowChoices &after) {
        commands.push_back({what, text, after});
    };
    if (row) {
        const TimelineModel::Row &at = model.rows()[*row];
        const TimelineModel::Group &group = model.groups()[at.group];
        const std::string device(group.device);
        const std::string lane = model.tables(at.measured).lane(at.lane).name;
        const int stage = model.stage(group);
        RowChoices after = now;
        after.hiddenLanes.insert({device, lane, at.measured});
        add(What::HideRow,
            QObject::tr("Hide the %1 %2 row of %3")
                .arg(QObject::tr(model.clockName(at.measured)), qt(lane), qt(device)),
            after);
        after = now;
        after.hiddenDevices.insert(device);
        add(What::HideDevice, QObject::tr("Hide %1").arg(qt(device)), after);
        after = now;
        const bool pins = turnOver(after.pinned, device);
        add(What::Pin,
            pins ? QObject::tr("Pin %1 to the top").arg(qt(device)) : QObject::tr("Unpin %1").arg(qt(device)), after);
        after = now;
        const QString node = qt(nodeOf(device));
        const bool closesNode = turnOver(after.collapsedNodes, nodeOf(device));
        add(What::CollapseNode,
            closesNode ? QObject::tr("Collapse node %1").arg(node) : QObject::tr("Expand node %1").arg(node), after);
        after = now;
        if (stage >= 0) {
            const bool closes = turnOver(after.collapsedStages, stage);
            add(What::CollapseStage,
                closes ? QObject::tr("Collapse stage %1").arg(stage) : QObject::tr("Expand stage %1").arg(stage),
                after);
        }
    }
    if (now.any()) {
        RowChoices all;
        all.communication = now.communication;
        add(What::ShowAll, QObject::tr("Show all rows"), all);
    }
    return commands;
}

} // namespace planloom::ui
