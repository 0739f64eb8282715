// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/compute_context.h"

#include <string>

namespace planloom::runtime {

/// First values of @p body's parameters, states and constants, by the initializers of @p subject's tensors of the same
/// name; constants of the backward pass use their own initializer. Values are drawn for the whole tensor, so that every
/// layout starts from the same, and the rank's part is taken from them. The device has them when it returns. Errors:
/// those of device::initialize, Failed (memory, the device).
Status initializeBody(const program::Body &body, const ComputeContext &context, const graph::Graph &subject,
                      std::int64_t seed, const std::string &modelFolder);

} // namespace planloom::runtime
