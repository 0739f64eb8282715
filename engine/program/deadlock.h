// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/program/program.h"

namespace planloom::program {

/// Error (BadInput) if some tasks can never run, naming a cycle ("s0.F.m2 -> s0.B.m0 -> ..."). A task waits for its
/// dependencies, for the compute task before it in its rank's order, and, in a group, for what the other members wait
/// for. Communication lanes start what is ready, so they add no waiting of their own. Cost: O(tasks + dependencies).
Status checkRuns(const Program &program);

} // namespace planloom::program
