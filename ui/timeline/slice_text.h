// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "ui/timeline/timeline_model.h"

namespace planloom::ui {

/// A slice in some lines, for tooltips and screen readers: its task, where and when it ran, and its counterpart.
[[nodiscard]] QString sliceText(const TimelineModel &model, const TimelineModel::Slice &slice);

} // namespace planloom::ui
