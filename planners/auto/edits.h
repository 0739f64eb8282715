// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/auto/space.h"

#include <vector>

namespace planloom::planners::automatic {

/// Plans that differ from @p plan in one field of its file: for the last steps of a search, so that no edit of one
/// field makes its answer faster. Those that neighbours() and variants() have, other numbers of micro-batches, cuts
/// moved further, ZeRO and warm-up of one stage, the size of buckets, a device that another stage takes or none,
/// unequal shares. Some are invalid. O(stages + devices) of them.
std::vector<plan::Plan> edits(const plan::Plan &plan, const Problem &problem, const Settings &settings);

} // namespace planloom::planners::automatic
