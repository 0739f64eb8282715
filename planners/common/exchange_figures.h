// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "planners/common/exchange_seconds.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// What a plan's exchange between replicas costs beside what it could be: for people who compare. Nothing here changes
/// the plan. All of it simulates several times; a stopped one is an error (Cancelled).
namespace planloom::planners {

/// A setting of the exchange, and what a step takes with it.
struct ExchangeChoice {
    std::string name;
    ExchangeSeconds seconds;
    std::string refusal;       ///< why the plan cannot have it; empty: it can
    bool asPlanned = false;    ///< the plan has it
    double effectiveShare = 1; ///< of a step's progress that merges of averages keep; at most 0: nothing

    [[nodiscard]] double effectiveSeconds() const { return effectiveShare > 0 ? seconds.step / effectiveShare : 0; }
};

/// A way to exchange a table, the other tables being exchanged as the plan has it.
struct TableWay {
    plan::SparseTable table;
    double seconds = 0;     ///< of a step
    std::string refusal;    ///< why the plan cannot have it; empty: it can
    bool asPlanned = false; ///< one of a table's is
};

/// Rows that a replica looks up in a step of another batch.
struct BatchRows {
    double batch = 0; ///< samples of all replicas
    double unique = 0;
};

/// A table that is looked up by rows.
struct TableFigures {
    std::string parameter;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t batch = 0;    ///< samples of all replicas
    std::int64_t replicas = 0; ///< 0: the plan cannot exchange it by rows, and nothing is known of these
    cost::TableRows lookedUp;  ///< by one replica in a step
    std::vector<TableWay> ways;
    std::vector<BatchRows> byBatch; ///< ascending, from a sample a replica to where nearly all rows are looked up, or
                                    ///< to a thousand times the plan's batch

    [[nodiscard]] std::int64_t bytes() const { return rows * columns * 4; }
    /// The share of the rows that a replica looks up in a step (α), and of these the share that some replica looks up
    /// in the next one.
    [[nodiscard]] double density() const { return lookedUp.unique / static_cast<double>(rows); }
    [[nodiscard]] double priorShare() const { return lookedUp.unique > 0 ? lookedUp.prior / lookedUp.unique : 0; }
    /// Bytes that a replica of @p of sends in a step on average, with as many samples each as the plan gives it.
    [[nodiscard]] double sentBytes(plan::TableStrategy strategy, double of) const
    {
        return sentBytes(strategy, of, lookedUp.unique);
    }
    /// Where it looks up @p unique rows.
    [[nodiscard]] double sentBytes(plan::TableStrategy strategy, double of, double unique) const;
    /// The replicas from which on all-gather sends more than all-reduce (2 / α).
    [[nodiscard]] double mostGathered() const { return 2 / density(); }
    /// The batch, between those of byBatch, at which a replica looks up the share @p density of the rows; none: it is
    /// beyond them.
    [[nodiscard]] std::optional<double> batchWith(double density) const;
    /// The fastest of the ways, the simplest of equal ones; nullptr: none can be had.
    [[nodiscard]] const TableWay *fastest() const;
};

/// Of every table of the model that is looked up by rows (plan::lookedUpTables), under the plan's scheduling; the plan
/// exchanges by rows. Cost: up to seven simulations a table.
Result<std::vector<TableFigures>> tableFigures(const plan::Plan &plan, const plan::Subject &subject,
                                               Progress &progress);

/// The plan under each order of its communication (plan::kExchangeSchedulings); it exchanges by rows. Cost: six
/// simulations.
Result<std::vector<ExchangeChoice>> schedulingFigures(const plan::Plan &plan, const plan::Subject &subject,
                                                      Progress &progress);

/// A step's time with a delay of averages.
struct DelayPoint {
    std::int64_t delay = 0;
    std::int64_t localSteps = 0; ///< the plan's, or as many as the delay, which no round is shorter than
    double seconds = 0;
};

/// Of a plan that averages parameters.
struct AveragingFigures {
    AveragingTimes times;
    double seconds = 0;                  ///< of a step, as planned
    double hiddenShare = 0;              ///< of an average, as planned
    std::vector<DelayPoint> byDelay;     ///< from 0 to twice the plan's rounds, those that a plan can have; of long
                                         ///< rounds not every delay
    std::vector<ExchangeChoice> methods; ///< synchronous, local SGD, CoCoD (Shen et al., 2019), DaSGD
};
/// Errors: those of compilation. Cost: one simulation for each delay, at most 33, and ten more.
Result<AveragingFigures> averagingFigures(const plan::Plan &plan, const plan::Subject &subject, Progress &progress);

} // namespace planloom::planners
