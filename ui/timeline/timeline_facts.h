// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QStringList>

#include "ui/state/studio_state.h"
#include "ui/timeline/timeline_model.h"

namespace planloom::ui {

/// The file of the measured trace; of a run's own trace where that will be; empty: there is none.
[[nodiscard]] QString shownTrace(const StudioState &state);

/// The facts below the timeline: predicted and measured time of a step, by which course of its
/// run, the effect of the last edit, whose plan was
/// measured, rows that are hidden.
[[nodiscard]] QStringList timelineFacts(const StudioState &state, const TimelineModel &model);

} // namespace planloom::ui
