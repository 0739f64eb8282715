// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/device.h"

#include <span>
#include <string_view>

namespace planloom::device {

/// A kernel for one update rule, in one pass over all ranges: what update_formula.h would do, to rounding, but faster.
using FusedUpdate = void (*)(const update::Formula &formula, const UpdateStep &how,
                             std::span<const UpdateRange> ranges);

/// nullptr: the rule has none.
FusedUpdate fusedUpdate(std::string_view rule);

} // namespace planloom::device
