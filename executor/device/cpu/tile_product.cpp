// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/tile_product.h"

#include <algorithm>
#include <cstring>

namespace planloom::device {

namespace {

struct TileOperands {
    TileView a, b;
    std::int64_t k = 0;
    float *c = nullptr;
    std::int64_t stride = 0;
    bool add = false;
};

/// kRows x (kVectors vectors) of c, held in registers over the whole of k (Goto and van de Geijn, Anatomy of
/// high-performance matrix multiplication, 2008, section 5).
template <class Vector, int kRows, int kVectors>
[[gnu::always_inline]] inline void block(const TileOperands &o, std::int64_t row, std::int64_t column)
{
    constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(float);
    Vector sums[kRows][kVectors] = {};
    const float *a = o.a.data + row * o.a.row;
    const float *b = o.b.data + column;
    for (std::int64_t k = 0; k < o.k; ++k, a += o.a.column, b += o.b.row) {
        Vector right[kVectors];
        for (int v = 0; v < kVectors; ++v)
            std::memcpy(&right[v], b + v * kLanes, sizeof right[v]);
        for (int r = 0; r < kRows; ++r) {
            const Vector left = a[r * o.a.row] - Vector{}; // in every lane; x - 0 is x for every x, 0 + x is not
            for (int v = 0; v < kVectors; ++v)
                sums[r][v] += left * right[v];
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
        float *c = o.c + (row + r) * o.stride + column;
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
            if (o.add) {
                Vector before;
                std::memcpy(&before, c + v * kLanes, sizeof before);
                sums[r][v] += before;
            }
            std::memcpy(c + v * kLanes, &sums[r][v], sizeof sums[r][v]);
        }
    }
}

template <class Vector, int kRows>
[[gnu::always_inline]] inline void product(const TileOperands &o, std::int64_t m, std::int64_t n)
{
    constexpr int kVectors = static_cast<int>(kTileColumns * sizeof(float) / sizeof(Vector));
    for (std::int64_t column = 0; column < n; column += kTileColumns) {
        for (std::int64_t row = 0; row < m; row += kRows)
            block<Vector, kRows, kVectors>(o, row, column);
    }
}

using Four = float __attribute__((vector_size(16)));

// Each with as many sums as its registers hold beside the operands.
void productPlain(const TileOperands &o, std::int64_t m, std::int64_t n) { product<Four, 2>(o, m, n); }

#if defined(__x86_64__)
using Eight = float __attribute__((vector_size(32)));
using Sixteen = float __attribute__((vector_size(64)));

[[gnu::target("avx2,fma")]] void productAvx2(const TileOperands &o, std::int64_t m, std::int64_t n)
{
    product<Eight, 6>(o, m, n);
}

[[gnu::target("avx512f")]] void productAvx512(const TileOperands &o, std::int64_t m, std::int64_t n)
{
    product<Sixteen, 12>(o, m, n);
}
#endif

using Product = void (*)(const TileOperands &, std::int64_t, std::int64_t);

Product pick()
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return productAvx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return productAvx2;
#endif
    return productPlain;
}

} // namespace

void tileProduct(std::int64_t m, std::int64_t n, std::int64_t k, TileView a, TileView b, float *c, std::int64_t stride,
                 bool add)
{
    static const Product kProduct = pick();
    kProduct({a, b, k, c, stride, add}, m, n);
}

} // namespace planloom::device
