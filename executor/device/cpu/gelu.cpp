// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/gelu.h"

#include "executor/device/cpu/simd.h"

namespace planloom::device {

PLANLOOM_CLONES void geluTanh(const float *x, float *y, std::int64_t n)
{
    constexpr float kScale = 0.7978845608028654F; // sqrt(2 / pi)
    for (std::int64_t i = 0; i < n; ++i)          // 0.5 (1 + tanh u) is the sigmoid of 2u
        y[i] = x[i] * simd::sigmoid(2.0F * kScale * (x[i] + 0.044715F * x[i] * x[i] * x[i]));
}

PLANLOOM_CLONES void geluErf(const float *x, float *y, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = 0.5F * x[i] * (1.0F + simd::erf(x[i] * 0.7071067811865476F));
}

PLANLOOM_CLONES void geluTanhGrad(const float *dy, const float *x, float *dx, std::int64_t n)
{
    constexpr float kScale = 2.0F * 0.7978845608028654F; // 2 sqrt(2 / pi): the sigmoid of 2u is 0.5 (1 + tanh u)
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
        const float square = x[i] * x[i];
        const float s = simd::sigmoid(kScale * (x[i] + 0.044715F * x[i] * square));
        dx[i] = dy[i] * (s + x[i] * s * (1.0F - s) * kScale * (1.0F + 3.0F * 0.044715F * square));
    }
}

PLANLOOM_CLONES void geluErfGrad(const float *dy, const float *x, float *dx, std::int64_t n)
{
    constexpr float kDensity = 0.3989422804014327F; // 1 / sqrt(2 pi)
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
        const float below = 0.5F * (1.0F + simd::erf(x[i] * 0.7071067811865476F));
        dx[i] = dy[i] * (below + x[i] * kDensity * simd::exp(-0.5F * x[i] * x[i]));
    }
}

} // namespace planloom::device
