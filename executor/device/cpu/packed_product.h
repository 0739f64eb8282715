// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace planloom::device {

/// Where a matrix's elements are: (r, c) at r * row + c * column floats. One of the two is 1.
struct MatrixStrides {
    std::int64_t row = 0;
    std::int64_t column = 1;
};

/// Called for the part [row, row + rows) x [column, column + columns) of a product as soon as it is there, by the
/// thread that made it.
using PartDone = std::function<void(std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns)>;

/// C (m x n) = A (m x k) times B (k x n) in float32, all threads together, by blocks that fit the levels of the cache
/// (Goto and van de Geijn, Anatomy of high-performance matrix multiplication, 2008). A sum runs over k in the same
/// order whatever the number of threads is, so the results are equal bit for bit. Scratch: at most 11 MiB a thread,
/// kept from the first run on and shared by all products.
struct PackedProduct {
    std::int64_t m = 0, n = 0, k = 0; ///< none is 0 when it runs
    MatrixStrides a, b;
    std::int64_t stride = 0; ///< floats from one row of C to the next

    /// Whether this processor can run it: one with AVX2.
    static bool possible();
    /// Whether this is the faster way here: vectors of eight floats and no longer ones (with AVX-512 oneDNN has 98 % of
    /// the peak), and large enough that packing the operands is small beside the product. Without barriers between
    /// threads it is 1.02 times as fast as oneDNN's by processor time and up to 1.05 by the clock
    /// (tests/bench/bench_products).
    [[nodiscard]] bool pays() const;

    /// c = a b, plus a row of n floats unless @p bias is null; or c += a b with @p add, which takes no bias.
    /// @p done, unless empty, is called while the parts are still in a cache: any number of them at the same time, each
    /// once.
    void run(const float *a, const float *b, const float *bias, float *c, bool add, const PartDone &done = {}) const;
};

} // namespace planloom::device
