// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// Hardware-aware balance inside a task graph (Whale §3.3.1, Algorithm 1). The load is counted in units that cannot be
// divided: samples.
namespace planloom::planners::whale {

/// A device that takes a part of a load.
struct Worker {
    double speed = 1;  ///< units a second, or any figure in proportion: FLOP/s
    double memory = 0; ///< bytes
};

/// Bytes that a worker needs for a load of n units: fixed + n * perUnit. The paper has no fixed part.
struct LoadMemory {
    double fixed = 0;
    double perUnit = 0;
    [[nodiscard]] double of(std::int64_t units) const { return fixed + static_cast<double>(units) * perUnit; }
};

/// One pass of Algorithm 1's loop.
struct Shift {
    std::size_t peak = 0;   ///< had too little memory
    std::size_t valley = 0; ///< took over
    std::int64_t moved = 0;
    bool fits = false; ///< the peak fits now; otherwise the valley is full
};

/// How a load is shared out.
struct Balance {
    std::vector<std::int64_t> units; ///< per worker, at least 1 each; they sum to the load
    std::vector<Shift> shifts;
    bool fits = false; ///< every worker's part is within its memory
};

/// Units that a worker's memory holds.
std::int64_t roomOf(const Worker &worker, const LoadMemory &memory);

/// Shares in proportion to speed, rounded by largest remainder; then load moves from the fullest worker to the one that
/// is done first until all fit. "Success" of a shift, which the paper leaves open: as much moves as the peak must lose
/// and the valley can take, and it succeeds if the peak then fits; otherwise the valley is full and drops out. Ties go
/// to the emptier memory, then to the lower index. Finds a solution whenever there is one. Needs units >= workers.
/// O(workers^2).
Balance balanceByAlgorithm1(const std::vector<Worker> &workers, const LoadMemory &memory, std::int64_t units);

/// The shortest time of the slowest worker, exactly: each unit goes to the worker that would be done with it first and
/// has room. O(units log workers).
Balance balanceByTime(const std::vector<Worker> &workers, const LoadMemory &memory, std::int64_t units);

/// Equal shares, larger ones first: the division without balance.
Balance evenShares(const std::vector<Worker> &workers, const LoadMemory &memory, std::int64_t units);

/// Units over speed of the slowest worker.
double slowest(const std::vector<Worker> &workers, const std::vector<std::int64_t> &units);

} // namespace planloom::planners::whale
