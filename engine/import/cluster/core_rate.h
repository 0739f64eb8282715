// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace planloom::import {

/// What one core of this machine reaches.
struct CoreRate {
    double float32 = 0;  ///< FLOP/s of fused multiply-adds over its widest vectors
    double bfloat16 = 0; ///< twice that where it has products of 16 bit pairs
};

/// Measured by the first call of a process, in some milliseconds; later ones return the same. The best of many short
/// runs, so that other work on the machine hardly shows (a copy would show it: memory is shared, a core is not);
/// rounded to two digits. Thread-safe.
const CoreRate &coreRate();

} // namespace planloom::import
