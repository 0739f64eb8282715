// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/task_times.h"

#include <cstdint>
#include <vector>

namespace planloom::compile {

/// What the tasks of a table that is exchanged by rows are expected to take and send on one rank, by Zipf's law: which
/// rows a step looks up depends on its samples.
class RowTimes {
public:
    /// @p team: that of @p table.
    RowTimes(const Source &source, TaskTimes &times, const program::Table &table, const Team &team,
             const StageInstance &instance);

    [[nodiscard]] Seconds work(const program::RowWork &work) const;
    /// Of an exchange of all, prior or delayed rows; @p gradients: to their owners, else of those that are looked up.
    [[nodiscard]] Seconds exchange(bool gradients, program::RowPart part) const;
    /// That this rank sends in it.
    [[nodiscard]] std::int64_t sentBytes(bool gradients, program::RowPart part) const;

private:
    /// Rows that a step is expected to look up, of those that a member holds.
    struct MemberRows {
        double unique = 0;      ///< of one replica's samples
        double prior = 0;       ///< of these
        double updated = 0;     ///< of all replicas' samples
        std::int64_t width = 0; ///< columns

        [[nodiscard]] double rows(program::RowPart part) const
        {
            return part == program::RowPart::All ? unique : part == program::RowPart::Prior ? prior : unique - prior;
        }
        /// Of `updated`.
        [[nodiscard]] double updatedRows(program::RowPart part) const
        {
            return unique > 0 ? updated * (rows(part) / unique) : 0;
        }
    };
    [[nodiscard]] const MemberRows &own() const { return m_rows[m_at]; }
    /// Numbers in the rows of one replica, on all members that hold a part of them; and into how many pieces they are
    /// cut.
    [[nodiscard]] double numbers() const;
    [[nodiscard]] double pieces() const;
    [[nodiscard]] Seconds ofIds() const;
    [[nodiscard]] Seconds ofPieces(double count) const;
    [[nodiscard]] Seconds ofCopies(double numbers) const;
    [[nodiscard]] Seconds ofAdditions(double rows, double width) const;

    TaskTimes &m_times;
    const program::Table &m_table;
    const StageInstance &m_instance;
    double m_ids = 0;               ///< of one replica's samples
    Seconds m_perId{0};             ///< cost::kSecondsPerRowId
    Seconds m_perPiece{0};          ///< cost::kSecondsPerRowPiece
    Seconds m_perNumber{0};         ///< cost::kSecondsPerRowNumber; below 0: not known
    Seconds m_perAddedRow{0};       ///< cost::kSecondsPerAddedRow
    Seconds m_perAddedNumber{0};    ///< cost::kSecondsPerAddedNumber; below 0: neither is known
    std::vector<MemberRows> m_rows; ///< per member
    std::size_t m_at = 0;           ///< this rank's
    int m_states = 0;
    int m_streams = 0;
};

/// Where an exchange stands among those that wait for the collective lane (program::Task::priority).
struct ExchangePriority {
    static constexpr std::int32_t kLookUp = 1;
    static constexpr std::int32_t kRows = 2;
    static constexpr std::int32_t kDense = 3;         ///< of the bucket whose parameters a forward pass reads first
    static constexpr std::int32_t kDelayed = 1 << 20; ///< behind all others of a step
    static constexpr std::int32_t kAverage = kDelayed + 1;
};

} // namespace planloom::compile
