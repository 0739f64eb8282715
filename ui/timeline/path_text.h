// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "ui/timeline/timeline_path.h"

namespace planloom::ui {

/// Sums of a critical path in a line: "critical path, predicted: forward 61 ms (38.0 %, 12 tasks) + … = 161 ms".
[[nodiscard]] QString pathText(const TimelineModel &model, const TimelinePath &path);
/// The same to the nanosecond, a line for each kind, tab-separated.
[[nodiscard]] QString exactPathText(const TimelineModel &model, const TimelinePath &path);

} // namespace planloom::ui
