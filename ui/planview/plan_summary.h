// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "engine/plan/plan.h"
#include "engine/simulate/simulate.h"

#include <optional>
#include <string>
#include <vector>

namespace planloom::ui {

/// "iteration 12.3 ms (−3.10 %)  ·  ..." : the predicted figures of @p plan and the changes by the last edit. Changes
/// have a sign.
QString predictionText(const plan::Plan &plan, const simulate::Report &now,
                       const std::optional<simulate::Report> &before);

/// The planner's estimate beside the simulated time of the current plan; empty if it gave
/// nothing.
QString estimateText(const plan::Plan &plan, const simulate::Report &now);

/// A line for each of a planner's notes, to follow another text; empty without any.
QString notesText(const std::vector<std::string> &notes);

} // namespace planloom::ui
