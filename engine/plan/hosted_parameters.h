// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <cstddef>

namespace planloom::plan {

/// validate()'s part on the parameters of stage @p index that lie on the host (Memory::hostParameters): they are whole,
/// in float32, and updated by their own rank, once, behind its passes. Errors: BadInput, each naming the field and the
/// fix.
Status checkHostedParameters(const Plan &plan, std::size_t index);

} // namespace planloom::plan
