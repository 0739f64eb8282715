// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <string_view>

namespace planloom::plan {

/// The factor of the learning rate in step @p step (from 0) of a run of @p runSteps. While it warms up (s + 1) /
/// (warmupSteps + 1); then the fall goes from 1 at warmupSteps to the minimum at totalSteps, linearly or as half a
/// cosine, and stays there.
double learningRateFactor(const LearningRateSchedule &schedule, std::int64_t step, std::int64_t runSteps);

/// The optimizer's settings in effect for one parameter.
struct ParameterSettings {
    double weightDecay = 0;
    double learningRateFactor = 1;
};
/// From the first group that matches, else the optimizer's own. @p rank: the parameter's number of axes.
ParameterSettings settingsOf(const Optimizer &optimizer, std::string_view parameter, std::size_t rank);

/// `*` stands for any run of characters, everything else for itself. Time O(pattern * text).
bool matches(std::string_view pattern, std::string_view text);
/// @p match of a group of parameters: a pattern, or "rank<N" for parameters of fewer than N axes.
bool matchesParameter(std::string_view match, std::string_view parameter, std::size_t rank);

const char *name(LearningRateSchedule::Kind kind); ///< "constant", "linear", "cosine"
std::optional<LearningRateSchedule::Kind> learningRateKindFromName(std::string_view text);

} // namespace planloom::plan
