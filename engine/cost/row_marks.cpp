// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/row_marks.h"

#include <algorithm>
#include <bit>

namespace planloom::cost {

RowMarks::RowMarks(std::int64_t tableRows)
    : m_marks(static_cast<std::size_t>(tableRows) / kBits + 1),
      m_used(m_marks.size() / kBits + 1),
      m_before(m_marks.size())
{
}

void RowMarks::mark(std::span<const std::int64_t> rows)
{
    for (const std::int64_t row : rows)
        mark(row);
}

/// @p take of the number of each word that has a mark, ascending.
template <class Take>
void RowMarks::eachWord(const Take &take) const
{
    for (std::size_t group = 0; group < m_used.size(); ++group)
        for (std::uint64_t left = m_used[group]; left != 0; left &= left - 1)
            take(group * kBits + static_cast<std::size_t>(std::countr_zero(left)));
}

void RowMarks::append(RowIds &rows) const
{
    eachWord([&](std::size_t word) {
        for (std::uint64_t left = m_marks[word]; left != 0; left &= left - 1)
            rows.push_back(static_cast<std::int64_t>(word * kBits) + std::countr_zero(left));
    });
}

void RowMarks::countPlaces()
{
    std::int32_t before = 0;
    eachWord([&](std::size_t word) {
        m_before[word] = before;
        before += std::popcount(m_marks[word]);
    });
}

std::int64_t RowMarks::placeOf(std::int64_t row) const
{
    const auto word = static_cast<std::size_t>(row) / kBits;
    const std::uint64_t own = bit(static_cast<std::size_t>(row));
    return has(row) ? m_before[word] + std::popcount(m_marks[word] & (own - 1)) : -1;
}

void RowMarks::split(std::span<const std::int64_t> rows, RowIds &marked, RowIds &others) const
{
    for (const std::int64_t row : rows)
        (has(row) ? marked : others).push_back(row);
}

void RowMarks::clear()
{
    eachWord([this](std::size_t word) { m_marks[word] = 0; });
    std::fill(m_used.begin(), m_used.end(), 0);
}

} // namespace planloom::cost
