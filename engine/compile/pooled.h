// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/alias.h"

#include <vector>

namespace planloom::compile {

/// Per tensor of @p training: whether a memory policy may place it and what lies in it (plan::Memory). These are the
/// roots of what forward operators make, without what leaves the stage, the loss, and what communicating operators
/// touch.
std::vector<bool> pooledRoots(const graph::TrainingGraph &training, const Aliases &aliases);

} // namespace planloom::compile
