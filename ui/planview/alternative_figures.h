// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "engine/base/progress.h"
#include "engine/plan/plan.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace planloom::ui {

/// What a plan comes to, as the simulator has it.
struct AlternativeFigures {
    double seconds = 0;         ///< of an iteration
    std::int64_t peakBytes = 0; ///< of the fullest device
    double bubble = 0;          ///< idle share of the compute lanes
    double sentBytes = 0;       ///< in an iteration, by all devices: collectives, and activations and gradients between
                                ///< stages
    bool fits = true;
};

/// nullopt: the plan cannot be simulated on @p subject. Any thread. Cost: a simulation of folded ranks.
std::optional<AlternativeFigures> alternativeFigures(const plan::Plan &plan, const plan::Subject &subject);

/// True for those of @p all that no other one beats in both time and memory: the Pareto front. Of equal ones the first.
std::vector<bool> paretoFront(const std::vector<std::optional<AlternativeFigures>> &all);

} // namespace planloom::ui
