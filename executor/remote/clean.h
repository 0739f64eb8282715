// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace planloom::remote {

/// What was removed of what runs have left on this machine.
struct Cleaned {
    int runs = 0;           ///< kept ones, that have ended
    int items = 0;          ///< of the cache, also those that came in part
    std::int64_t bytes = 0; ///< of their files
    int running = 0;        ///< runs that go on
    int kept = 0;           ///< runs that have ended, and stay
};
/// Removes kept runs that have ended and were not written for @p days, and items as old that no run which stays, or has
/// joined this machine, was given. What cannot be removed stays. 0 days: all; no run may be about to start then.
Cleaned clean(double days);

} // namespace planloom::remote
