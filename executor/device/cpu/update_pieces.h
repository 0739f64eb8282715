// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cpu/parallel.h"
#include "executor/device/device.h"

#include <cstdint>
#include <span>

namespace planloom::device {

inline std::int64_t piecesOf(const UpdateRange &range) { return (range.count + kGrain - 1) / kGrain; }

inline std::int64_t piecesOf(std::span<const UpdateRange> ranges)
{
    std::int64_t pieces = 0;
    for (const UpdateRange &range : ranges)
        pieces += piecesOf(range);
    return pieces;
}

/// Pieces [from, to) of all ranges' pieces, in order: f(range, begin, end, number of the piece).
template <class F>
void walkPieces(std::span<const UpdateRange> ranges, std::int64_t from, std::int64_t to, F f)
{
    std::int64_t first = 0; // of the range
    for (const UpdateRange &range : ranges) {
        const std::int64_t last = first + piecesOf(range);
        for (std::int64_t piece = std::max(first, from); piece < std::min(last, to); ++piece) {
            const std::int64_t begin = (piece - first) * kGrain;
            f(range, begin, std::min(range.count, begin + kGrain), piece);
        }
        if (last >= to)
            return;
        first = last;
    }
}

/// All pieces of all ranges, each thread a run of them: small tensors do not wait for each other, and nothing is
/// allocated.
template <class F>
void forPieces(std::span<const UpdateRange> ranges, F f)
{
    const std::int64_t pieces = piecesOf(ranges);
    const std::int64_t threads = std::min<std::int64_t>(threadCount(), pieces);
    if (threads <= 1) {
        walkPieces(ranges, 0, pieces, f);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(static_cast <int>(threads)) if (kThreaded)
    for (std::int64_t t = 0; t < threads; ++t)
        walkPieces(ranges, t * pieces / threads, (t + 1) * pieces / threads, f);
}

/// To the nearest bfloat16, ties to even; a NaN stays one.
void narrowCopy(const float *p, std::uint16_t *copy, std::int64_t n);
/// The sum of squares, in an order of addition that depends on n only.
double squaresOfPiece(const float *g, std::int64_t n);

} // namespace planloom::device
