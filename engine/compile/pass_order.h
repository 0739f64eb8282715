// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/vocabulary.h"
#include "engine/plan/plan.h"

#include <string>
#include <vector>

namespace planloom::compile {

/// The order on @p device, on which the stages @p stages lie: by kind, or as Schedule::order lists it. The plan must be
/// valid (plan::validate).
std::vector<PassStep> passOrder(const plan::Plan &plan, const std::vector<std::size_t> &stages,
                                const std::string &device);

} // namespace planloom::compile
