// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace planloom::device {

/// Lines of sums that are made together.
inline constexpr std::int64_t kOuterLines = 4;
/// Numbers to whose multiple rows and lines of the functions below are padded.
inline constexpr std::int64_t kOuterPadding = 8;

constexpr std::int64_t outerStride(std::int64_t n) { return (n + kOuterPadding - 1) / kOuterPadding * kOuterPadding; }

/// to[r][i] = factor * from[r][i], in double; lines of `to` are outerStride(n) long, with zeros behind n.
void widenRows(const float *from, std::int64_t rows, std::int64_t n, double factor, double *to);

/// Rows of doubles, one behind the other.
struct OuterRows {
    const double *data = nullptr;
    std::int64_t stride = 0;
};

/// sums[l * right.stride + j] += left[r][l] right[r][j] for l < kOuterLines and j < columns (up to whole vectors more),
/// over @p rows in their order: whatever a sum's neighbours are, it is the same to the bit on one instruction set.
void addOuterProducts(std::int64_t rows, OuterRows left, OuterRows right, std::int64_t columns, double *sums);

using AddOuterProducts = void (*)(std::int64_t rows, OuterRows left, OuterRows right, std::int64_t columns,
                                  double *sums);
/// addOuterProducts() on one of the instruction sets that it chooses from.
struct OuterPath {
    const char *name; ///< "avx512f", "avx2", "plain"
    AddOuterProducts add;
};
/// Those that this processor has; the first is the one that is chosen, the last is plain.
std::vector<OuterPath> outerPaths();

} // namespace planloom::device
