// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/outer_sums.h"

#include "executor/device/cpu/simd.h"

#include <cstring>

namespace planloom::device {

namespace {

struct OuterOperands {
    std::int64_t rows = 0;
    OuterRows left, right;
    double *sums = nullptr;
};

/// kOuterLines lines of kVectors vectors, held in registers over all rows.
template <class Vector, int kVectors>
[[gnu::always_inline]] inline void addBlock(const OuterOperands &o, std::int64_t column)
{
    constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(double);
    Vector sums[kOuterLines][kVectors];
    for (std::int64_t l = 0; l < kOuterLines; ++l)
        for (int v = 0; v < kVectors; ++v)
            std::memcpy(&sums[l][v], o.sums + l * o.right.stride + column + v * kLanes, sizeof(Vector));
    const double *left = o.left.data;
    const double *right = o.right.data + column;
    for (std::int64_t r = 0; r < o.rows; ++r, left += o.left.stride, right += o.right.stride) {
        Vector row[kVectors];
        for (int v = 0; v < kVectors; ++v)
            std::memcpy(&row[v], right + v * kLanes, sizeof(Vector));
        for (std::int64_t l = 0; l < kOuterLines; ++l) {
            const Vector factor = left[l] - Vector{}; // in every lane; x - 0 is x for every x, 0 + x is not
            for (int v = 0; v < kVectors; ++v)
                sums[l][v] += factor * row[v];
        }
    }
    for (std::int64_t l = 0; l < kOuterLines; ++l)
        for (int v = 0; v < kVectors; ++v)
            std::memcpy(o.sums + l * o.right.stride + column + v * kLanes, &sums[l][v], sizeof(Vector));
}

/// kMost: vectors of a line that registers hold beside the operands.
template <class Vector, int kMost>
[[gnu::always_inline]] inline void addLines(const OuterOperands &o, std::int64_t columns)
{
    constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(double);
    std::int64_t column = 0;
    for (; column + (kMost - 1) * kLanes < columns; column += kMost * kLanes)
        addBlock<Vector, kMost>(o, column);
    for (; column < columns; column += kLanes)
        addBlock<Vector, 1>(o, column);
}

using TwoDoubles = double __attribute__((vector_size(16)));

void addPlain(std::int64_t rows, OuterRows left, OuterRows right, std::int64_t columns, double *sums)
{
    addLines<TwoDoubles, 2>({rows, left, right, sums}, columns);
}

#if defined(__x86_64__)
using FourDoubles = double __attribute__((vector_size(32)));
using EightDoubles = double __attribute__((vector_size(64)));

[[gnu::target("avx2,fma")]] void addAvx2(std::int64_t rows, OuterRows left, OuterRows right, std::int64_t columns,
                                         double *sums)
{
    addLines<FourDoubles, 2>({rows, left, right, sums}, columns);
}

[[gnu::target("avx512f")]] void addAvx512(std::int64_t rows, OuterRows left, OuterRows right, std::int64_t columns,
                                          double *sums)
{
    addLines<EightDoubles, 3>({rows, left, right, sums}, columns);
}
#endif

} // namespace

PLANLOOM_CLONES void widenRows(const float *from, std::int64_t rows, std::int64_t n, double factor, double *to)
{
    const std::int64_t stride = outerStride(n);
    for (std::int64_t r = 0; r < rows; ++r, from += n, to += stride) {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            to[i] = factor * static_cast<double>(from[i]);
        for (std::int64_t i = n; i < stride; ++i)
            to[i] = 0;
    }
}

void addOuterProducts(std::int64_t rows, OuterRows left, OuterRows right, std::int64_t columns, double *sums)
{
    static const AddOuterProducts kAdd = outerPaths().front().add;
    kAdd(rows, left, right, columns, sums);
}

std::vector<OuterPath> outerPaths()
{
    std::vector<OuterPath> paths;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        paths.push_back({"avx512f", addAvx512});
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        paths.push_back({"avx2", addAvx2});
#endif
    paths.push_back({"plain", addPlain});
    return paths;
}

} // namespace planloom::device
