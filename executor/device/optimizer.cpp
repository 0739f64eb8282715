// SPDX-License-Identifier: Apache-2.0
#include "executor/device/kernel.h"
#include "executor/device/parallel.h"
#include "executor/device/simd.h"

namespace planloom::device {

namespace {

PLANLOOM_CLONES void addPiece(const float *x, float *y, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] += x[i];
}

PLANLOOM_CLONES void sgdPiece(float rate, float momentum, float decay, float *p, float *g, float *v, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i) {
        const float velocity = momentum * v[i] + (g[i] + decay * p[i]);
        v[i] = velocity;
        p[i] -= rate * velocity;
        g[i] = 0.0F;
    }
}

PLANLOOM_CLONES void plainSgdPiece(float rate, float decay, float *p, float *g, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i) {
        p[i] -= rate * (g[i] + decay * p[i]);
        g[i] = 0.0F;
    }
}

/// AdamW with the bias corrections folded into two factors.
struct AdamFactors {
    float beta1, restOf1, beta2, restOf2, epsilon, keep, rate, rootScale;
};

PLANLOOM_CLONES void adamPiece(AdamFactors f, float *p, float *g, float *m, float *v, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i) {
        const float first = f.beta1 * m[i] + f.restOf1 * g[i];
        const float second = f.beta2 * v[i] + f.restOf2 * g[i] * g[i];
        m[i] = first;
        v[i] = second;
        p[i] = p[i] * f.keep - f.rate * first / (std::sqrt(second) * f.rootScale + f.epsilon);
        g[i] = 0.0F;
    }
}

} // namespace

void accumulate(const float *x, float *y, std::int64_t n)
{
    parallelFor(n, kGrain, [=](std::int64_t begin, std::int64_t end) { addPiece(x + begin, y + begin, end - begin); });
}

void sgd(const SgdStep &how, float *parameter, float *gradient, float *velocity, std::int64_t n)
{
    const auto rate = static_cast<float>(how.learningRate);
    const auto momentum = static_cast<float>(how.momentum);
    const auto decay = static_cast<float>(how.weightDecay);
    parallelFor(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
        if (velocity != nullptr)
            sgdPiece(rate, momentum, decay, parameter + begin, gradient + begin, velocity + begin, end - begin);
        else
            plainSgdPiece(rate, decay, parameter + begin, gradient + begin, end - begin);
    });
}

// Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, algorithm 2.
void adamW(const AdamWStep &how, float *parameter, float *gradient, float *m, float *v, std::int64_t n)
{
    const auto step = static_cast<double>(how.step);
    const double correction1 = 1.0 - std::pow(how.beta1, step);
    const double correction2 = 1.0 - std::pow(how.beta2, step);
    const AdamFactors factors{static_cast<float>(how.beta1),
                              static_cast<float>(1.0 - how.beta1),
                              static_cast<float>(how.beta2),
                              static_cast<float>(1.0 - how.beta2),
                              static_cast<float>(how.epsilon),
                              static_cast<float>(1.0 - how.learningRate * how.weightDecay),
                              static_cast<float>(how.learningRate / correction1),
                              static_cast<float>(1.0 / std::sqrt(correction2))};
    parallelFor(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
        adamPiece(factors, parameter + begin, gradient + begin, m + begin, v + begin, end - begin);
    });
}

} // namespace planloom::device
