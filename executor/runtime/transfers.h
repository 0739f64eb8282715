// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "executor/comm/communicator.h"
#include "executor/runtime/rank_parts.h"

#include <cstdint>
#include <vector>

namespace planloom::runtime {

/// One message: rows of one tensor between this rank and another.
struct Message {
    std::int64_t offset = 0; ///< in the arena
    std::int64_t bytes = 0;
    std::int32_t peer = -1; ///< -1: no message; the peer has no gradient for these rows, which therefore are 0
    std::int32_t tag = 0;
    std::int64_t from = -1; ///< unless -1: in the same arena, where another stage on this rank made them; nothing is
                            ///< sent
};

/// The messages of a rank's transfers and copies. Every (tensor, peer, micro-batch) is a message with its own tag,
/// the same on both ends.
struct TransferTable {
    std::vector<Message> messages;
    std::vector<std::int32_t> first; ///< per entry of Rank::tasks, and one past the end: range in messages
};

/// Errors: Failed (the two ends of a cut do not list the same tensors), Unsupported (more messages than tags).
Result<TransferTable> makeTransfers(const program::Program &program, RankId rank, int maxTag);

/// Executes the transfers and copies of a rank. Thread contract: one thread.
class Transfers {
public:
    /// Errors: those of makeTransfers.
    Status prepare(RankParts &parts);

    /// Starts task @p task of Rank::tasks. Error: Failed.
    Status start(std::size_t task);
    /// True once all messages have arrived or left. Copies within the device are done when the queue of the task's lane
    /// has ended them. Error: Failed.
    Result<bool> test(std::size_t task);

private:
    Status connect();
    void expectMessages() const;
    Status startMessage(std::size_t index, const program::Task &task);

    RankParts *m_parts = nullptr;
    TransferTable m_table;
    std::vector<comm::Request> m_requests; ///< per message
};

} // namespace planloom::runtime
