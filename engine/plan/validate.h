// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

namespace planloom::plan {

/// A place in the plan file: keys and list positions from the top ("stages", "1").
using Field = std::vector<std::string>;

/// "stage 1", with its name where that is another: 'stage 1 ("head")'.
std::string stageLabel(const Plan &plan, std::size_t stage);

/// "2"; "2x4" where each of two replicas lies on four devices.
std::string replicaText(const Stage &stage);

/// validate() that also sets @p field to the field of an error, so that a reader of files can name the line.
Status validate(const Plan &plan, const Subject &subject, Field &field);

} // namespace planloom::plan
