// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <string>
#include <vector>

namespace planloom::planners {

/// What the exchange between @p plan's replicas costs or risks beside its time, a sentence each, for people; empty
/// where nothing is known against it. What a plan cannot have is no matter of this: plan::validate refuses it. Cost:
/// none.
std::vector<std::string> exchangeWarnings(const plan::Plan &plan);

} // namespace planloom::planners
