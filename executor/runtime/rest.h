// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// How a process waits for another one without using up the core that a third one computes on.
namespace planloom::runtime {

/// Sleeps between two looks at what another process will send, the longer, the longer nothing has moved: an eighth of
/// @p idle nanoseconds, from 20 to 200 microseconds.
void restWhileIdle(std::int64_t idle);

/// Lets the calling thread's sleeps end when they are over, and not up to 50 microseconds later.
void sleepExactly();

/// Asks for short turns on a core, for a thread that many wait for and that seldom has much to do: it then gets one
/// soon after it wakes, and not when those that compute have used up theirs (2.8 ms). Linux before 6.12 gives all
/// threads equal turns.
void takeShortTurns();

} // namespace planloom::runtime
