// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/setup.h"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace planloom::import {

/// More than any training has; keeps a hostile file from asking for tables without end.
constexpr std::int64_t kMostOfASize = 1 << 22;
constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;

/// The plan's rate rises from 1/(warm-up + 1) of its full. @p start: the file's first rate, as a share.
inline void noteWarmup(plan::Setup &setup, double start)
{
    const double own = 1 / static_cast<double>(setup.optimizer.schedule.warmupSteps + 1);
    if (setup.optimizer.schedule.warmupSteps > 0 && std::abs(start - own) > 1e-3 * own)
        setup.notes.push_back(fmt::format(
            "the learning rate warms up from {:.3g} of its full in the file and from {:.3g} in the plan", start, own));
}

inline void notePassedBy(plan::Setup &setup, const std::vector<std::string> &keys)
{
    if (!keys.empty())
        setup.notes.push_back(fmt::format("passed by, as the plan does not depend on it: {}", fmt::join(keys, " ")));
}

} // namespace planloom::import
