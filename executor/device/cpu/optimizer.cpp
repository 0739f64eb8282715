// SPDX-License-Identifier: Apache-2.0
#include "executor/device/kernel.h"
#include "executor/device/cpu/fused_updates.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/simd.h"
#include "executor/device/cpu/update_pieces.h"

#include <vector>

namespace planloom::device {

namespace {

PLANLOOM_CLONES void addPiece(const float *x, float *y, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] += x[i];
}

PLANLOOM_CLONES void sgdPiece(float scale, float rate, float momentum, float decay, float *p, float *g, float *v,
                              std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i) {
        const float velocity = momentum * v[i] + (scale * g[i] + decay * p[i]);
        v[i] = velocity;
        p[i] -= rate * velocity;
        g[i] = 0.0F;
    }
}

PLANLOOM_CLONES void plainSgdPiece(float scale, float rate, float decay, float *p, float *g, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i) {
        p[i] -= rate * (scale * g[i] + decay * p[i]);
        g[i] = 0.0F;
    }
}

/// AdamW with the bias corrections folded into two factors.
struct AdamFactors {
    float beta1, restOf1, beta2, restOf2, epsilon, scale, keep, rate, rootScale;
};

PLANLOOM_CLONES void adamPiece(AdamFactors f, float *p, float *g, float *m, float *v, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i) {
        const float gradient = f.scale * g[i];
        const float first = f.beta1 * m[i] + f.restOf1 * gradient;
        const float second = f.beta2 * v[i] + f.restOf2 * gradient * gradient;
        m[i] = first;
        v[i] = second;
        p[i] = p[i] * f.keep - f.rate * first / (std::sqrt(second) * f.rootScale + f.epsilon);
        g[i] = 0.0F;
    }
}

} // namespace

PLANLOOM_CLONES void narrowCopy(const float *p, std::uint16_t *copy, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(p[i]);
        const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
        const std::uint32_t quiet = (bits >> 16) | 0x40U;
        copy[i] = static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
    }
}

/// Squares of floats are exact in double, so the sum is the same with and without fused multiply-adds.
PLANLOOM_CLONES double squaresOfPiece(const float *g, std::int64_t n)
{
    constexpr std::int64_t kSums = 32;
    double lanes[kSums] = {};
    std::int64_t i = 0;
    for (; i + kSums <= n; i += kSums) {
        for (std::int64_t lane = 0; lane < kSums; ++lane)
            lanes[lane] += static_cast<double>(g[i + lane]) * static_cast<double>(g[i + lane]);
    }
    double sum = 0;
    for (; i < n; ++i)
        sum += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    for (const double lane : lanes)
        sum += lane;
    return sum;
}

void accumulate(const float *x, float *y, std::int64_t n)
{
    parallelFor(n, kGrain, [=](std::int64_t begin, std::int64_t end) { addPiece(x + begin, y + begin, end - begin); });
}

void sgd(const SgdStep &how, std::span<const UpdateRange> ranges)
{
    const auto momentum = static_cast<float>(how.momentum);
    const auto scale = static_cast<float>(how.gradientScale);
    const auto learningRate = static_cast<float>(how.learningRate);
    forPieces(ranges, [=](const UpdateRange &range, std::int64_t begin, std::int64_t end, std::int64_t) {
        float *parameter = range.parameter + begin;
        const std::int64_t n = end - begin;
        const float rate = learningRate * range.rateFactor;
        if (range.states[0] != nullptr)
            sgdPiece(scale, rate, momentum, range.decay, parameter, range.gradient + begin, range.states[0] + begin, n);
        else
            plainSgdPiece(scale, rate, range.decay, parameter, range.gradient + begin, n);
        if (range.copy != nullptr)
            narrowCopy(parameter, range.copy + begin, n);
    });
}

// Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, algorithm 2.
void adamW(const AdamWStep &how, std::span<const UpdateRange> ranges)
{
    const auto step = static_cast<double>(how.step);
    const double correction1 = 1.0 - std::pow(how.beta1, step);
    const double correction2 = 1.0 - std::pow(how.beta2, step);
    const AdamFactors shared{.beta1 = static_cast<float>(how.beta1),
                             .restOf1 = static_cast<float>(1.0 - how.beta1),
                             .beta2 = static_cast<float>(how.beta2),
                             .restOf2 = static_cast<float>(1.0 - how.beta2),
                             .epsilon = static_cast<float>(how.epsilon),
                             .scale = static_cast<float>(how.gradientScale),
                             .keep = 1,
                             .rate = 0,
                             .rootScale = static_cast<float>(1.0 / std::sqrt(correction2))};
    const auto learningRate = static_cast<float>(how.learningRate);
    forPieces(ranges, [=](const UpdateRange &range, std::int64_t begin, std::int64_t end, std::int64_t) {
        const float rate = learningRate * range.rateFactor;
        AdamFactors factors = shared;
        factors.keep = static_cast<float>(1.0 - static_cast<double>(rate) * static_cast<double>(range.decay));
        factors.rate = static_cast<float>(static_cast<double>(rate) / correction1);
        float *parameter = range.parameter + begin;
        adamPiece(factors, parameter, range.gradient + begin, range.states[0] + begin, range.states[1] + begin,
                  end - begin);
        if (range.copy != nullptr)
            narrowCopy(parameter, range.copy + begin, end - begin);
    });
}

double squaredNorm(std::span<const UpdateRange> ranges)
{
    thread_local std::vector<double>
        sums; // one a piece, so that the order of addition is always the same; kept from step to step
    sums.resize(static_cast<std::size_t>(piecesOf(ranges)));
    forPieces(ranges,
              [out = sums.data()](const UpdateRange &range, std::int64_t begin, std::int64_t end, std::int64_t piece) {
                  out[piece] = squaresOfPiece(range.gradient + begin, end - begin);
              });
    double total = 0;
    for (const double sum : sums)
        total += sum;
    return total;
}

void sgd(const SgdStep &how, float *parameter, float *gradient, float *velocity, std::int64_t n)
{
    const UpdateRange range{.parameter = parameter,
                            .gradient = gradient,
                            .states = {velocity},
                            .count = n,
                            .decay = static_cast<float>(how.weightDecay)};
    sgd(how, {&range, 1});
}

void adamW(const AdamWStep &how, float *parameter, float *gradient, float *m, float *v, std::int64_t n)
{
    const UpdateRange range{.parameter = parameter,
                            .gradient = gradient,
                            .states = {m, v},
                            .count = n,
                            .decay = static_cast<float>(how.weightDecay)};
    adamW(how, {&range, 1});
}

namespace {

void fusedSgd(const update::Formula &formula, const UpdateStep &how, std::span<const UpdateRange> ranges)
{
    sgd({.learningRate = how.learningRate, .momentum = formula.setting("momentum"), .gradientScale = how.gradientScale},
        ranges);
}

void fusedAdamW(const update::Formula &formula, const UpdateStep &how, std::span<const UpdateRange> ranges)
{
    adamW({.learningRate = how.learningRate,
           .beta1 = formula.setting("beta1"),
           .beta2 = formula.setting("beta2"),
           .epsilon = formula.setting("epsilon"),
           .step = how.step,
           .gradientScale = how.gradientScale},
          ranges);
}

} // namespace

FusedUpdate fusedUpdate(std::string_view rule)
{
    constexpr std::pair<std::string_view, FusedUpdate> kFused[] = {{"adamw", fusedAdamW}, {"sgd", fusedSgd}};
    for (const auto &[name, step] : kFused)
        if (name == rule)
            return step;
    return nullptr;
}

} // namespace planloom::device
