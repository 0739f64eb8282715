// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/simulate/simulate.h"

#include <cstddef>
#include <vector>

namespace planloom::ui {

/// For each device the number of its curve: replicas do alike and share one. Numbered from 0 as they first occur. Cost:
/// O(points * curves), all memory of a large simulation: not for the UI thread.
std::vector<std::size_t> numberCurves(const std::vector<std::vector<simulate::MemoryPoint>> &devices);

} // namespace planloom::ui
