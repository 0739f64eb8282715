// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <string>
#include <string_view>

namespace planloom::import {

/// A schedule of torch.distributed.pipelining in CSV (PyTorch 2.6 and later, in its form compute_only or
/// compute_comms) as the custom order of @p plan: a line for each list of devices in any order, which computes the
/// stages that lie there. Of its cells 4F0 is a forward, 4I0 and 4W0 are the two halves of a backward and 4B0 all of
/// it; (4F1;5B0)OVERLAP_F_B is the passes in the brackets, one after the other; sends, receives, gathers, reductions
/// and empty cells add nothing to a plan. Warm-ups are dropped: the order has them. Errors (BadInput): line and cell,
/// and the legal values; the letters of PyTorch 2.5, where B is what I is now.
Result<plan::Schedule> readPytorchSchedule(std::string_view text, const std::string &name, const plan::Plan &plan,
                                           const cluster::Cluster &cluster);

} // namespace planloom::import
