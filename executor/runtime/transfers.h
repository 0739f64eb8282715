// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "executor/comm/communicator.h"
#include "executor/runtime/arena.h"

#include <cstdint>
#include <vector>

namespace planloom::runtime {

/// One message: rows of one tensor between this rank and another, or the moment at which the sender was ready.
struct Transfer {
    std::int64_t offset = 0; ///< in the arena; of a stamp: index of the task's stamps
    std::int64_t bytes = 0;
    std::int32_t peer = -1;  ///< -1: no message; the peer has no gradient for these rows, which therefore are 0
    std::int32_t tag = 0;
    bool stamp = false;
    std::int64_t from = -1;  ///< unless -1: in the same arena, where another stage on this rank made them; nothing is sent
};

/// What each Send and Receive task of a rank moves. Every (tensor, peer, micro-batch) is a message with a tag of its own, the same on
/// both ends; each peer also gets one stamp, so that a receive is not taken to last while its sender still computes.
struct TransferTable {
    std::vector<Transfer> transfers;
    std::vector<std::int32_t> first; ///< per entry of Rank::tasks, and one past the end: range in transfers
    std::int32_t stamps = 0;
};

/// Errors: Failed (the two ends of a cut do not list the same tensors), Unsupported (more messages than tags).
Result<TransferTable> makeTransfers(const program::Program &program, RankId rank, int maxTag);

} // namespace planloom::runtime
