// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/row_marks.h"
#include "engine/cost/sparse_rows.h"
#include "executor/runtime/executor_options.h"
#include "executor/runtime/feeder.h"
#include "executor/runtime/rank_collectives.h"
#include "executor/runtime/rank_parts.h"
#include "executor/runtime/row_places.h"

#include <memory>
#include <span>
#include <vector>

namespace planloom::runtime {

/// The samples of a step, or of a part of an evaluation, as all members of a table's team look it up: which rows each
/// of them needs. Every rank works out those of all, as the order of samples is a pure function.
class LookedUpRows {
public:
    /// What it is given must outlive it. Error: Unsupported, if no data is known for the table's input.
    Status prepare(const program::Program &program, const program::Table &table, StageId stage, const Feed &feed);

    /// Per member, ascending.
    void ofStep(std::int64_t step, std::vector<cost::RowIds> &rows);
    /// Of the held-out samples from number @p first on, with the slices of micro-batch 0.
    void ofHeldOut(std::int64_t first, std::vector<cost::RowIds> &rows);

private:
    void mark(std::int64_t sample);
    void take(cost::RowIds &rows);

    const Feed *m_feed = nullptr;
    std::int64_t m_globalBatch = 1;
    std::int64_t m_tableRows = 0;
    std::size_t m_input = 0;                                  ///< among the feed's
    std::vector<std::span<const plan::SampleRange>> m_slices; ///< per member, per micro-batch
    std::vector<std::int64_t> m_ids;                          ///< of one sample
    cost::RowMarks m_marks;
};

/// This rank's part in exchanging tables by rows (plan::SparseExchange): it packs and unpacks rows, adds up gradients
/// in the order of the members, and makes the optimizer's step on rows with the number, and the learning rate, of the
/// step whose gradients they are. Thread contract: one thread.
class RowExchange final : public RowPlaces {
public:
    /// Of the tables that tasks of @p parts' rank exchange; what it is given must outlive it. Of @p options: the
    /// optimizer, and who is told how many rows there are. Errors: Unsupported (a
    /// device whose memory the host does not reach), those of LookedUpRows::prepare and makeUpdates.
    Status prepare(RankParts &parts, const Feed &feed, const ExecutorOptions &options);

    struct Step {
        std::int64_t number = 0; ///< from 0
        double learningRate = 0;
    };
    void work(const program::RowWork &work, const Step &step);
    Result<comm::Request> start(const program::RowExchange &exchange, const RankCollectives &collectives);
    void ended(const program::RowExchange &exchange);

    /// True if rows of the last step may still have to be exchanged, on any rank.
    [[nodiscard]] bool delays() const { return m_delays; }
    /// Collective, between steps: exchanges them now. Error: Failed (communication).
    Status settle(const RankCollectives &collectives);
    /// Collective, between steps: fetches the rows of held-out samples.
    Status lookUpHeldOut(std::int64_t first, const RankCollectives &collectives);

    [[nodiscard]] std::int32_t tableOf(std::string_view input) const override;
    [[nodiscard]] const std::string &idsOf(std::int32_t table) const override;
    void enter(std::int64_t step) override;
    void toPlaces(std::int32_t table, std::int64_t *ids, std::int64_t count) const override;

private:
    /// Sets of rows, per member.
    using PerMember = std::vector<cost::RowIds>;
    struct Table {
        TableId id;
        const program::Table *table = nullptr;
        const program::Table::Member *own = nullptr;
        std::size_t at = 0; ///< among the members
        LookedUpRows lookedUp;
        std::int64_t step = -1;     ///< whose rows `rows` are
        std::int64_t nextStep = -1; ///< likewise
        PerMember rows, next, prior, delayed;
        PerMember heldOut;
        const cost::RowIds *window = nullptr; ///< the rows in it
        cost::RowMarks inWindow;
        Step delayedOf;       ///< the step of the delayed rows
        bool pending = false; ///< delayed rows are not exchanged yet
        cost::RowMarks marks; ///< for a moment
        cost::RowIds updated;
        std::vector<std::int64_t> bytesTo, bytesFrom;
        std::vector<std::unique_ptr<device::Updates>> updates; ///< of ever fewer of the rows that are updated at once
        std::vector<std::int64_t> updateSizes;                 ///< in numbers
        std::byte *gradients = nullptr;
        std::byte *rowsHere = nullptr; ///< the window

        [[nodiscard]] std::int64_t width() const { return own->width(); }
    };

    Status add(const program::Table &table, TableId id, StageId stage, const Feed &feed, const plan::Optimizer &how);
    Status makeUpdates(Table &table, const plan::Optimizer &how);
    void enter(Table &table, std::int64_t step);
    void setWindow(Table &table, const cost::RowIds &rows);
    void splitRows(Table &table);
    void lookUp(Table &table, const PerMember &rows);
    void unpack(Table &table, const PerMember &rows);
    void collect(Table &table, const Step &step);
    void tellRows(const Table &table) const;
    void pack(Table &table, const cost::RowIds &rows, std::int64_t offset);
    void update(Table &table, const PerMember &rows, std::int64_t arrived, const Step &step);
    Result<comm::Request> send(Table &table, bool gradients, const PerMember &rows, bool delayed,
                               const RankCollectives &collectives);
    [[nodiscard]] const PerMember &gradientsOf(const Table &table, program::RowPart part) const;
    [[nodiscard]] float *floats(std::int64_t offset, std::int64_t count);
    Table &of(TableId id);

    RankParts *m_parts = nullptr;
    const ExecutorOptions *m_options = nullptr;
    const update::Formula *m_formula = nullptr;
    std::vector<Table> m_tables;
    bool m_delays = false;
};

} // namespace planloom::runtime
