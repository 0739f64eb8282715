// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

namespace planloom::runtime {

/// Pins the calling thread, and threads that it starts later, to its share of the physical cores that this process may
/// use: that of @p rank of the @p ranks that may use the same ones. Shares are disjoint, and cores of a share are
/// neighbours (same cache, same NUMA node as far as the numbers allow); memory that the thread touches first comes from
/// the NUMA nodes of its cores. With fewer cores than ranks, ranks share them in turn, and the calling thread sleeps
/// where it would look again for what has not come (Backoff::setCoreIsShared). Returns the number of cores of
/// the share, at least 1. Where the system refuses, nothing is pinned. Built without hwloc, processors stand for cores
/// and memory is left to the kernel, which does the same by default.
int pinToShare(int rank, int ranks);

/// The same for rank @p own of the @p sharers, which may use the same cores (comm::Communicator::sharers).
int pinToShare(int own, std::span<const int> sharers);

/// Physical cores (without hwloc, processors) that the calling thread may use, at least 1: those that pinToShare()
/// deals out.
int coresHere();

/// The processors that the calling thread may run on, as "0-3,8": for people and tests.
std::string processorsHere();

} // namespace planloom::runtime
