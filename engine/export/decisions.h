// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"

#include <string>

namespace planloom::exporting {

/// What the memory policies of @p program decided (plan::Memory), as tab-separated text with a line of headings: rank's
/// device, seconds on the policy's clock, tensor, micro-batch, bytes, seconds since its last use, seconds of its
/// operator, of all that would have to run again, score of the filter, ratio of the director, and "swap" or
/// "recompute". Tensors have their names where the program has bodies, else numbers. Cost: O(decisions).
std::string decisionLog(const program::Program &program, const cluster::Cluster &cluster);

} // namespace planloom::exporting
