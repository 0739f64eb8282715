// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/sparse_rows.h"

#include <cstdint>
#include <span>
#include <vector>

namespace planloom::cost {

/// Marks on some of a table's rows: a set of rows whose members come out in ascending order without being sorted, and
/// know their place among each other. 3/16 of a byte a row of the table.
class RowMarks {
public:
    explicit RowMarks(std::int64_t tableRows = 0);

    /// Row @p row, 0 to the table's rows - 1, marked already or not.
    void mark(std::int64_t row)
    {
        const auto word = static_cast<std::size_t>(row) / kBits;
        m_marks[word] |= bit(static_cast<std::size_t>(row));
        m_used[word / kBits] |= bit(word);
    }
    void mark(std::span<const std::int64_t> rows);
    [[nodiscard]] bool has(std::int64_t row) const
    {
        return (m_marks[static_cast<std::size_t>(row) / kBits] & bit(static_cast<std::size_t>(row))) != 0;
    }
    /// The marked rows, ascending, to the end of @p rows. Cost, as of countPlaces() and clear(): O(marked rows + rows
    /// of the table / 4096).
    void append(RowIds &rows) const;
    /// For placeOf(), which holds until the next mark.
    void countPlaces();
    /// How many marked rows are in front of the marked row @p row; -1: it is not marked.
    [[nodiscard]] std::int64_t placeOf(std::int64_t row) const;
    /// Those of @p rows that are marked to the end of @p marked, the others to that of @p others.
    void split(std::span<const std::int64_t> rows, RowIds &marked, RowIds &others) const;
    void clear();

private:
    static constexpr std::size_t kBits = 64;
    static std::uint64_t bit(std::size_t at) { return std::uint64_t(1) << (at % kBits); }
    template <class Take>
    void eachWord(const Take &take) const;

    std::vector<std::uint64_t> m_marks; ///< a bit a row
    std::vector<std::uint64_t> m_used;  ///< a bit for each of these words that has a mark
    std::vector<std::int32_t> m_before; ///< per word with a mark: marked rows in front of it
};

} // namespace planloom::cost
