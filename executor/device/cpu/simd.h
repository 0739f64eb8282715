// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// Compiles a function for several instruction sets; the loader picks one. Not with clang (14 has no such attribute) and
// not under sanitizers, whose run time is not up yet when the loader asks.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)                  \
    && !defined(__SANITIZE_THREAD__)
#define PLANLOOM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PLANLOOM_CLONES
#endif

// Functions without branches or calls, so that loops over them vectorise. Relative error of a few units in the last
// place.
namespace planloom::device::simd {

/// e^x; results below 2.4e-38 are 0, above the largest float infinity.
inline float exp(float x)
{
    const float limited = std::min(std::max(x, -87.0F), 89.0F);
    constexpr float kRound = 12582912.0F; // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
    const float shifted = limited * 1.44269504088896341F + kRound;
    const float n = shifted - kRound;
    const float r = (limited - n * 0.693359375F) + n * 2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * r * r + r + 1.0F;
    // 2^(n-1), then once more 2: 2^128 is not a float.
    const float half = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + 126U) << 23);
    const float result = p * half * 2.0F;
    return x < -87.0F ? 0.0F : result;
}

inline float sigmoid(float x) { return 1.0F / (1.0F + exp(-x)); }

inline float tanh(float x)
{
    const float square = x * x;
    float p = -5.70498872745e-3F;
    p = p * square + 2.06390887954e-2F;
    p = p * square - 5.37397155531e-2F;
    p = p * square + 1.33314422036e-1F;
    p = p * square - 3.33332819422e-1F;
    const float small = p * square * x + x;
    const float large = 1.0F - 2.0F / (exp(2.0F * x) + 1.0F);
    return std::fabs(x) < 0.625F ? small : large;
}

inline float erf(float x)
{
    const float a = std::fabs(x);
    const float square = x * x;
    float t = 7.853861353153693e-5F;
    t = t * square - 8.010193625184903e-4F;
    t = t * square + 5.188327685732524e-3F;
    t = t * square - 2.685381193529856e-2F;
    t = t * square + 1.128358514861418e-1F;
    t = t * square - 3.761262582423300e-1F;
    t = t * square + 1.128379165726710e+0F;
    const float small = x * t;

    const float q = 1.0F / std::max(a, 0.5F);
    const float y = q * q;
    float near = 2.326819970068386e-2F;
    near = near * y - 1.387039388740657e-1F;
    near = near * y + 3.687424674597105e-1F;
    near = near * y - 5.824733027278666e-1F;
    near = near * y + 6.210004621745983e-1F;
    near = near * y - 4.944515323274145e-1F;
    near = near * y + 3.404879937665872e-1F;
    near = near * y - 2.741127028184656e-1F;
    near = near * y + 5.638259427386472e-1F;
    float far = -1.047766399936249e+1F;
    far = far * y + 1.297719955372516e+1F;
    far = far * y - 7.495518717768503e+0F;
    far = far * y + 2.921019019210786e+0F;
    far = far * y - 1.015265279202700e+0F;
    far = far * y + 4.218463358204948e-1F;
    far = far * y - 2.820767439740514e-1F;
    far = far * y + 5.641895067754075e-1F;
    const float tail = exp(-square) * q * (a < 2.0F ? near : far);
    const float large = std::copysign(1.0F - tail, x);
    return a < 1.0F ? small : large;
}

/// The largest of n numbers; -infinity of none. The compiler may compare in lanes, which it may not without being told
/// because of NaN.
inline float maximum(const float *x, std::int64_t n)
{
    float result = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : result)
    for (std::int64_t i = 0; i < n; ++i)
        result = x[i] > result ? x[i] : result;
    return result;
}

} // namespace planloom::device::simd
