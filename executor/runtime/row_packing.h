// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

/// Copies of rows between a table, or a part of its columns, and the packed form in which they travel. Rows are given
/// by number, ascending; a row has `width` numbers. Every function returns the end of what it packed or unpacked.
/// Cost: a memcpy a row, or an addition a number.
namespace planloom::runtime {

inline void copyFloats(float *to, const float *from, std::int64_t count)
{
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}

/// @p table begins with row @p firstRow.
inline float *packRows(float *packed, const float *table, std::int64_t firstRow, std::int64_t width,
                       std::span<const std::int64_t> rows)
{
    for (const std::int64_t row : rows) {
        copyFloats(packed, table + (row - firstRow) * width, width);
        packed += width;
    }
    return packed;
}

inline const float *unpackRows(float *table, const float *packed, std::int64_t firstRow, std::int64_t width,
                               std::span<const std::int64_t> rows)
{
    for (const std::int64_t row : rows) {
        copyFloats(table + (row - firstRow) * width, packed, width);
        packed += width;
    }
    return packed;
}

/// Packed rows, a part of them by their first column, to the neighbouring rows of a window of @p columns columns.
inline const float *unpackNeighbours(float *window, std::int64_t columns, const float *packed, std::int64_t width,
                                     std::int64_t count)
{
    for (std::int64_t row = 0; row < count; ++row) {
        copyFloats(window, packed, width);
        window += columns;
        packed += width;
    }
    return packed;
}

/// Packed rows added to those of the same number among @p sums, whose rows are @p all: each of @p rows is one of them.
inline const float *addRows(float *sums, std::span<const std::int64_t> all, std::int64_t width, const float *packed,
                            std::span<const std::int64_t> rows)
{
    auto place = all.begin();
    for (const std::int64_t row : rows) {
        while (*place < row)
            ++place;
        float *sum = sums + (place - all.begin()) * width;
        for (std::int64_t c = 0; c < width; ++c)
            sum[c] += packed[c];
        packed += width;
    }
    return packed;
}

} // namespace planloom::runtime
