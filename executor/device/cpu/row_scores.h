// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/device.h"

namespace planloom::device {

/// Queue::score, on the calling thread; logits of bfloat16 are widened as they are read.
RowScores scoreRows(const ScoredRows &rows);

} // namespace planloom::device
