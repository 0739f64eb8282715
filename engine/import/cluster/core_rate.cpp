// SPDX-License-Identifier: Apache-2.0
#include "engine/import/cluster/core_rate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <iterator>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace planloom::import {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSteps = 8'000;       // of a run of multiply-adds, some 20 us
constexpr int kRuns = 60;           // the best counts
constexpr std::size_t kChains = 12; // independent sums: more than latency times the units of any core

volatile float sink = 0; ///< keeps the sums

/// FLOP of a run.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) double wideRun()
{
    __m512 sums[kChains];
    for (std::size_t i = 0; i < kChains; ++i)
        sums[i] = _mm512_set1_ps(static_cast<float>(i));
    const __m512 factor = _mm512_set1_ps(0.999F);
    for (int step = 0; step < kSteps; ++step)
#pragma GCC unroll 12
        for (__m512 &sum : sums)
            sum = _mm512_fmadd_ps(sum, factor, factor);
    float all = 0;
    for (const __m512 &sum : sums)
        all += _mm512_cvtss_f32(sum);
    sink = all;
    return 2.0 * 16 * kChains * kSteps;
}

__attribute__((target("avx2,fma"))) double narrowRun()
{
    __m256 sums[kChains];
    for (std::size_t i = 0; i < kChains; ++i)
        sums[i] = _mm256_set1_ps(static_cast<float>(i));
    const __m256 factor = _mm256_set1_ps(0.999F);
    for (int step = 0; step < kSteps; ++step)
#pragma GCC unroll 12
        for (__m256 &sum : sums)
            sum = _mm256_fmadd_ps(sum, factor, factor);
    float all = 0;
    for (const __m256 &sum : sums)
        all += _mm256_cvtss_f32(sum);
    sink = all;
    return 2.0 * 8 * kChains * kSteps;
}
#endif

/// Vectors of four, which every compiler maps to what the target has.
double plainRun()
{
    float sums[4 * kChains];
    std::fill(std::begin(sums), std::end(sums), 1.0F);
    for (int step = 0; step < kSteps; ++step)
        for (float &sum : sums)
            sum = sum * 0.999F + 0.999F;
    float all = 0;
    for (const float sum : sums)
        all += sum;
    sink = all;
    return 2.0 * 4 * kChains * kSteps;
}

double secondsOf(double (*run)(), double &work)
{
    const auto start = Clock::now();
    work = run();
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Work a second of the fastest of @p runs.
double bestRate(double (*run)(), int runs)
{
    double best = 0;
    for (int i = 0; i < runs; ++i) {
        double work = 0;
        const double seconds = secondsOf(run, work);
        best = std::max(best, seconds > 0 ? work / seconds : 0);
    }
    return best;
}

double rounded(double value)
{
    const double unit = std::pow(10, std::floor(std::log10(std::max(value, 1.0))) - 1);
    return std::max(1.0, std::round(value / unit)) * unit;
}

CoreRate measured()
{
    CoreRate rate;
    bool pairs = false;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        rate.float32 = bestRate(narrowRun, kRuns);
    if (__builtin_cpu_supports("avx512f"))
        rate.float32 = std::max(rate.float32, bestRate(wideRun, kRuns));
    pairs = __builtin_cpu_supports("avx512bf16");
#endif
    if (rate.float32 <= 0)
        rate.float32 = bestRate(plainRun, kRuns);
    rate.float32 = rounded(rate.float32);
    rate.bfloat16 = rate.float32 * (pairs ? 2 : 1);
    return rate;
}

} // namespace

const CoreRate &coreRate()
{
    static const CoreRate kMeasured = measured();
    return kMeasured;
}

} // namespace planloom::import
