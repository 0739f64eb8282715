// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace planloom::runtime {

// Tags of the messages between the processes of a sampled job. No trainer's transfers have the same ends.
inline constexpr int kCommandTag = 1; ///< trainer to sampler: 4 numbers (SampledBatches::Command)
inline constexpr int kBatchTag = 2;   ///< sampler to trainer: labels, and trees or a block
inline constexpr int kHeldOutTag = 3; ///< the same, of held-out samples
inline constexpr int kRequestTag = 4; ///< sampler to store: the iteration, number of rows
inline constexpr int kNumbersTag = 5; ///< sampler to store: nodes, ascending
inline constexpr int kRowsTag = 6;    ///< store to sampler: node and features, each row
inline constexpr int kNetworkTag = 7; ///< rank 0 to all: where the paced network's memory is
inline constexpr int kAskTag = 8;     ///< worker to server: a ServerRequest
inline constexpr int kCountTag = 9;   ///< sampler to trainer, before a block: BlockCounts
inline constexpr int kHeldOutCountTag = 10;
inline constexpr int kServedTag = 16; ///< from here on a tag for each part of what is served, in both directions

// The first number of a command.
inline constexpr std::int64_t kDraw = 1;
inline constexpr std::int64_t kEnd = 2;
/// The first number of a request that is the last one; else it is the iteration.
inline constexpr std::int64_t kStoreEnd = -2;

/// A process that waits to be asked has so many times the deadline of an answer.
inline constexpr int kIdleDeadlines = 10;

} // namespace planloom::runtime
