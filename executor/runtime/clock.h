// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/communicator.h"

#include <chrono>
#include <cstdint>

namespace planloom::runtime {

/// This machine's monotonic clock, nanoseconds.
std::int64_t monotonicNanoseconds();

/// Collective. One moment, shortly before the return, as each rank's own clock shows it: time zero of a trace.
/// Clocks are compared by Cristian's method (half the shortest of several round trips); a difference that a round trip
/// cannot tell from zero is taken for the same clock, as ranks of one machine have it.
Result<std::int64_t> agreeOnOrigin(comm::Communicator &communicator, std::chrono::nanoseconds deadline);

} // namespace planloom::runtime
