// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/schedule/schedule.h"

namespace planloom::schedule {

/// DualPipe in its form with one copy of the parameters ("DualPipeV", "cut-in-half": DeepSeek-V3, 2024, §3.2.1 and its
/// published code) on rank @p rank of @p ranks. The pipeline goes down the ranks and back up in a V: rank r has the
/// stages r and 2 ranks - 1 - r, so that its forward of one meets its backward of the other. Gradients of weights are
/// passes of their own, late ones where they fill bubbles, others right behind their backward. At least 2 ranks
/// micro-batches.
std::vector<PassStep> dualPipeVOrder(std::int64_t microBatches, std::int32_t rank, std::int32_t ranks);

} // namespace planloom::schedule
