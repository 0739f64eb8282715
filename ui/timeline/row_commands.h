// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "ui/timeline/timeline_model.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace planloom::ui {

/// Something to do with the rows of a timeline: what a menu calls it, and which rows are shown then.
struct RowCommand {
    enum class What { HideRow, HideDevice, Pin, CollapseNode, CollapseStage, ShowAll };
    What what = What::ShowAll;
    QString text;
    RowChoices after;
};

/// What can be done at row @p row of @p model; where there is none, with all rows. Pin and both Collapse turn back what
/// they did.
std::vector<RowCommand> rowCommands(const TimelineModel &model, std::optional<std::size_t> row);

} // namespace planloom::ui
