// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/spp/partition.h"

#include <cstddef>
#include <vector>

namespace planloom::planners::spp {

/// Which of two passes that fall into one cycle a stage runs first.
enum class TieBreak : unsigned char { BackwardFirst, ForwardFirst };
/// Whether a channel's two directions wait for each other.
enum class Duplex : unsigned char { Half, Full };

/// One pass or transfer. The last stage's forward and backward are one block (backward is false).
struct Block {
    std::size_t resource = 0; ///< stage n: 2n; the channel after it: 2n + 1
    std::size_t microBatch = 0;
    bool backward = false;
    double begin = 0, end = 0;
};

/// The schedule of an iteration (SPP, PE).
struct Execution {
    double seconds = 0;        ///< T: until the last all-reduce ends
    double bound = 0;          ///< (M + 4S - 4) C + max A, which T does not exceed
    std::vector<Block> blocks; ///< in the order of cycles
};

/// The execution scheduler (SPP, PE): block j of micro-batch m has cycle m + j; every stage and channel runs its blocks
/// in the order of their cycles, each as soon as its inputs are there; a stage's all-reduce follows its last block.
/// O(stages * micro-batches).
Execution execute(const Instance &instance, const std::vector<Part> &parts, TieBreak tie, Duplex duplex);

/// Forward passes that each stage runs before its first backward under that order: 4 (S - n) for stage n of S, counted
/// from 1, one more with forward first; 1 for the last; at most @p microBatches.
std::vector<int> warmupOf(std::size_t stages, std::size_t microBatches, TieBreak tie);

} // namespace planloom::planners::spp
