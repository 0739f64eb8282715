// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace planloom::runtime {

/// Pins the calling thread, and those that it starts later, to its share of the processors that this process may use: rank
/// @p localRank of @p localSize on this machine. With fewer processors than ranks, ranks share them in turn. Returns the number of
/// processors of the share, at least 1. Where the system refuses, nothing is pinned.
int pinToShare(int localRank, int localSize);

} // namespace planloom::runtime
