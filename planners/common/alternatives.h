// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

#include <optional>
#include <vector>

namespace planloom::planners {

/// True if @p a and @p b are the same plan in effect: alike in all that decides a simulation (plan::simulationKey) but
/// the size of gradient buckets, and in their seconds and, where both are known, peaks within kSameFigures. Names,
/// planners and learning rates do not count. Cost: that of simulationKey().
bool sameInEffect(const Candidate &a, const Candidate &b);
/// Figures whose ratio is nearer to 1 than this look the same in tables, which show three digits.
inline constexpr double kSameFigures = 1e-3;

/// The fullest device's peak in bytes; 0: no devices.
std::int64_t fullestBytes(const simulate::Report &report);

/// Without those that are the same in effect as @p chosen or as an earlier one.
std::vector<Candidate> distinct(const Candidate &chosen, std::vector<Candidate> alternatives);

/// What there is to choose beside the plan of @p report: its runners-up and the plans that need less memory, the
/// fastest first, each once in effect.
std::vector<Candidate> offeredBeside(const PlanReport &report);

/// The first of @p alternatives, best first, that is another plan in effect than @p chosen.
std::optional<plan::RunnerUp> runnerUpAmong(const Candidate &chosen, const std::vector<Candidate> &alternatives);

/// In words, a line each, what @p other does otherwise than @p chosen ("stage 1: layers 18..36 -> 16..36"); names of
/// stages and planners are left out. Empty: nothing.
std::vector<std::string> differencesOf(const plan::Plan &chosen, const plan::Plan &other);

} // namespace planloom::planners
