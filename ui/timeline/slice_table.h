// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/timeline/time_axis.h"
#include "ui/timeline/timeline_model.h"
#include "ui/widgets/data_table.h"

#include <vector>

namespace planloom::ui {

/// The slices of @p model in the stretch of time of @p axis as a table, in the order of rows; the first ones, if there
/// are very many. @p slices: becomes the slice of each row. Cost: O(rows of the model + rows of the table).
TableData sliceTable(const TimelineModel &model, const TimeAxis &axis, std::vector<TimelineModel::Slice> &slices);

} // namespace planloom::ui
