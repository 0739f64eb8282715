// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/agreements.h"
#include "executor/runtime/averaging.h"
#include "executor/runtime/executor_options.h"
#include "executor/runtime/rank_collectives.h"
#include "executor/runtime/rank_parts.h"
#include "executor/runtime/row_exchange.h"
#include "executor/runtime/swaps.h"
#include "executor/runtime/transfers.h"

namespace planloom::runtime {

/// The tasks of a rank that communicate or copy, each done by the class for its payload. Thread contract: one thread.
class RankCommunication {
public:
    /// What it is given must outlive it.
    RankCommunication(RankParts &parts, const ExecutorOptions &options) : m_parts(parts), m_options(options) {}

    /// Of a Program with tables, before there are stages. Errors: those of RowExchange::prepare.
    Status prepareRows(const Feed &feed) { return m_rows.prepare(m_parts, feed, m_options); }
    /// Collective, once there are stages. Errors: those of the classes for payloads.
    Status prepare();

    /// Starts @p task, which is number @p index of Rank::tasks. @p request: where a collective or an agreement is.
    /// Error: Failed.
    Status start(const program::Task &task, std::size_t index, std::int64_t step, comm::Request &request);
    /// True once all that it sends and receives is done. Error: Failed.
    Result<bool> test(const program::Task &task, std::size_t index, comm::Request &request);
    /// Enqueues the rest of the work then. Returns the lane whose queue has it.
    program::Lane ended(const program::Task &task, std::int64_t step);

    [[nodiscard]] Transfers &transfers() { return m_transfers; }
    [[nodiscard]] Swaps &swaps() { return m_swaps; }
    [[nodiscard]] RankCollectives &collectives() { return m_collectives; }
    [[nodiscard]] Agreements &agreements() { return m_agreements; }
    [[nodiscard]] const Agreements &agreements() const { return m_agreements; }
    [[nodiscard]] Averaging &averaging() { return m_averaging; }
    [[nodiscard]] RowExchange &rows() { return m_rows; }

private:
    RankParts &m_parts;
    const ExecutorOptions &m_options;
    Transfers m_transfers;
    Swaps m_swaps;
    RankCollectives m_collectives;
    Agreements m_agreements;
    Averaging m_averaging;
    RowExchange m_rows;
};

} // namespace planloom::runtime
