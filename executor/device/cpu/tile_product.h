// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace planloom::device {

/// Rows of a tile are computed in groups of this many, columns in groups of kTileColumns: both sizes of a product are
/// multiples of them.
inline constexpr std::int64_t kTileRows = 12;
inline constexpr std::int64_t kTileColumns = 16;

/// n rounded up to whole groups.
constexpr std::int64_t tileRows(std::int64_t n) { return (n + kTileRows - 1) / kTileRows * kTileRows; }
constexpr std::int64_t tileColumns(std::int64_t n) { return (n + kTileColumns - 1) / kTileColumns * kTileColumns; }

/// Floats from one row of a tile to the next, for n columns: whole groups, and an odd number of cache lines, because
/// rows whose distance is a power of two crowd into few sets of a cache.
constexpr std::int64_t tileStride(std::int64_t n)
{
    const std::int64_t columns = tileColumns(n);
    return columns / kTileColumns % 2 != 0 ? columns : columns + kTileColumns;
}

/// A small matrix that lies in a cache: element (r, c) at data[r * row + c * column].
struct TileView {
    const float *data = nullptr;
    std::int64_t row = 0;
    std::int64_t column = 1;

    [[nodiscard]] TileView transposed() const { return {data, column, row}; }
};

/// c (m x n, rows of `stride` floats) = a (m x k) times b (k x n; its columns are neighbours), or c += with add. For
/// operands that fit a second-level cache, where packing them as a general product does would cost as much as the
/// product. m is a multiple of kTileRows and n of kTileColumns: tiles are padded, and results of the padding
/// is never read.
void tileProduct(std::int64_t m, std::int64_t n, std::int64_t k, TileView a, TileView b, float *c, std::int64_t stride,
                 bool add);

} // namespace planloom::device
