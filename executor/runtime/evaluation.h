// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/run/metrics.h"
#include "executor/runtime/rank_collectives.h"
#include "executor/runtime/rank_parts.h"
#include "executor/runtime/row_exchange.h"
#include "executor/runtime/transfers.h"

namespace planloom::runtime {

/// Forward only, over the held-out samples, between two steps. Thread contract: one thread.
class Evaluator final : private PassHooks {
public:
    Evaluator(RankParts &parts, Transfers &transfers, RankCollectives &collectives, RowExchange &rows)
        : m_parts(parts),
          m_transfers(transfers),
          m_collectives(collectives),
          m_rows(rows)
    {
    }

    /// Collective. The number of held-out samples must not be 0. Error: Failed.
    Result<run::Validation> run();

private:
    Result<Scores> scoreOnce(std::int64_t first);
    Status exchangeOnce(bool sends, BodyId body);
    void betweenOperators() override {}
    bool communicate(std::int32_t op, const Communication &what) override;

    RankParts &m_parts;
    Transfers &m_transfers;
    RankCollectives &m_collectives;
    RowExchange &m_rows;
    BodyId m_scoring; ///< the body that is evaluated
    Status m_status;
};

} // namespace planloom::runtime
