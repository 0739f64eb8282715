// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/memory/walk.h"

namespace planloom::memory {

/// The least seconds in which @p stream can run with at most limits.budget bytes in use at any moment, by exhaustive
/// search: what no policy with synchronous copies can beat. Without swaps it is the optimum of Jain et al., Checkmate,
/// 2020 (§4, the integer program), for the stream's order of operators; with them copies take their time as operators
/// do. What is dead may stay for others that run again; host copies stay. Errors: Unsupported (more than kMostStorages
/// storages that may leave), BadInput (the budget is too small). Cost: exponential in the storages.
Result<double> optimalSeconds(const Stream &stream, const Limits &limits);

inline constexpr std::size_t kMostStorages = 16;

} // namespace planloom::memory
