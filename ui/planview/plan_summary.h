// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "engine/plan/plan.h"
#include "engine/simulate/simulate.h"

#include <optional>

namespace planloom::ui {

/// "iteration 12.3 ms (▼ 3.10 % shorter)  ·  ..." : what the simulator predicts and what the last edit changed. Changes are told by
/// arrow and word, not by colour.
QString predictionText(const simulate::Report &now, const std::optional<simulate::Report> &before);

/// What the planner thought of its plan, beside what the simulator says of the plan as it is now; empty if it said nothing.
QString estimateText(const plan::Plan &plan, const simulate::Report &now);

} // namespace planloom::ui
