// SPDX-License-Identifier: Apache-2.0
// Gradients of element-wise operators: dx = dy * f'(.), where the second argument is the operator's input x or its
// output y.
#include "executor/device/cpu/gelu.h"
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/simd.h"

namespace planloom::device {

namespace {

using Piece = void (*)(const float *dy, const float *v, float *dx, std::int64_t n, float a, float b);

PLANLOOM_CLONES void reluGrad(const float *dy, const float *y, float *dx, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] = y[i] > 0.0F ? dy[i] : 0.0F;
}

PLANLOOM_CLONES void tanhGrad(const float *dy, const float *y, float *dx, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] = dy[i] * (1.0F - y[i] * y[i]);
}

PLANLOOM_CLONES void sigmoidGrad(const float *dy, const float *y, float *dx, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] = dy[i] * y[i] * (1.0F - y[i]);
}

PLANLOOM_CLONES void sqrtGrad(const float *dy, const float *y, float *dx, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] = 0.5F * dy[i] / y[i];
}

PLANLOOM_CLONES void siluGrad(const float *dy, const float *x, float *dx, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i) {
        const float s = simd::sigmoid(x[i]);
        dx[i] = dy[i] * s * (1.0F + x[i] * (1.0F - s));
    }
}

PLANLOOM_CLONES void erfGrad(const float *dy, const float *x, float *dx, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] = dy[i] * 1.1283791670955126F * simd::exp(-x[i] * x[i]); // 2 / sqrt(pi)
}

PLANLOOM_CLONES void absGrad(const float *dy, const float *x, float *dx, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i) {
        const float oriented = x[i] < 0.0F ? -dy[i] : dy[i];
        dx[i] = x[i] == 0.0F ? 0.0F : oriented;
    }
}

PLANLOOM_CLONES void leakyReluGrad(const float *dy, const float *x, float *dx, std::int64_t n, float a, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] = x[i] < 0.0F ? a * dy[i] : dy[i];
}

PLANLOOM_CLONES void eluGrad(const float *dy, const float *x, float *dx, std::int64_t n, float a, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] = x[i] < 0.0F ? dy[i] * a * simd::exp(x[i]) : dy[i];
}

PLANLOOM_CLONES void softplusGrad(const float *dy, const float *x, float *dx, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] = dy[i] * simd::sigmoid(x[i]);
}

PLANLOOM_CLONES void hardSwishGrad(const float *dy, const float *x, float *dx, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i) {
        const float middle = dy[i] * (x[i] * (1.0F / 3.0F) + 0.5F);
        const float outside = x[i] >= 3.0F ? dy[i] : 0.0F;
        dx[i] = x[i] > -3.0F && x[i] < 3.0F ? middle : outside;
    }
}

PLANLOOM_CLONES void hardSigmoidGrad(const float *dy, const float *x, float *dx, std::int64_t n, float a, float b)
{
    for (std::int64_t i = 0; i < n; ++i) {
        const float line = a * x[i] + b;
        dx[i] = line > 0.0F && line < 1.0F ? a * dy[i] : 0.0F;
    }
}

/// tanh(s) + x sigmoid(x) (1 - tanh(s)^2), s = log(1 + e^x), in the terms of Mish's kernel.
PLANLOOM_CLONES void mishGrad(const float *dy, const float *x, float *dx, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i) {
        const float w = simd::exp(std::min(x[i], 20.0F));
        const float ratio = w * (w + 2.0F);
        const float inverse = 1.0F / (ratio + 2.0F);
        const float slope = 4.0F * (ratio + 1.0F) * inverse * inverse;
        dx[i] = dy[i] * (ratio * inverse + x[i] * (w / (1.0F + w)) * slope);
    }
}

PLANLOOM_CLONES void clipGrad(const float *dy, const float *x, float *dx, std::int64_t n, float a, float b)
{
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] = x[i] >= a && x[i] <= b ? dy[i] : 0.0F;
}

void sinGrad(const float *dy, const float *x, float *dx, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] = dy[i] * std::cos(x[i]);
}

void cosGrad(const float *dy, const float *x, float *dx, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        dx[i] = -dy[i] * std::sin(x[i]);
}

Made makePiecewise(const Request &request, Piece piece, float a = 0, float b = 0)
{
    const std::int64_t n = request.outputs[0].elements();
    if (n != request.inputs[0].elements() || n != request.inputs[1].elements())
        return wrong(request,
                     "gradient " + text(request.in(0)) + " and value " + text(request.in(1)) + " differ in size");
    return makeFunction([=](Inputs in, Outputs out) {
        const float *dy = floats(in[0]);
        const float *v = floats(in[1]);
        float *dx = floats(out[0]);
        parallelFor(n, kGrain, [=](std::int64_t i, std::int64_t end) { piece(dy + i, v + i, dx + i, end - i, a, b); });
    });
}

template <Piece piece>
Made make(const Request &request)
{
    return makePiecewise(request, piece);
}

Made makeLeakyRelu(const Request &r)
{
    return makePiecewise(r, leakyReluGrad, static_cast<float>(r.op.number("alpha", 0.01)));
}
Made makeElu(const Request &r) { return makePiecewise(r, eluGrad, static_cast<float>(r.op.number("alpha", 1.0))); }
Made makeHardSigmoid(const Request &r)
{
    return makePiecewise(r, hardSigmoidGrad, static_cast<float>(r.op.number("alpha", 0.2)),
                         static_cast<float>(r.op.number("beta", 0.5)));
}
Made makeGelu(const Request &r)
{
    const Piece byTanh = [](const float *dy, const float *x, float *dx, std::int64_t n, float, float) {
        geluTanhGrad(dy, x, dx, n);
    };
    const Piece byErf = [](const float *dy, const float *x, float *dx, std::int64_t n, float, float) {
        geluErfGrad(dy, x, dx, n);
    };
    return makePiecewise(r, r.op.text("approximate", "none") == "tanh" ? byTanh : byErf);
}
Made makeClip(const Request &r)
{
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return makePiecewise(r, clipGrad, static_cast<float>(r.op.number("min", -kInfinity)),
                         static_cast<float>(r.op.number("max", kInfinity)));
}

constexpr KernelEntry kEntries[] = {
    {"AbsGrad", "ff", "f", make<absGrad>},           {"ClipGrad", "ff", "f", makeClip},
    {"CosGrad", "ff", "f", make<cosGrad>},           {"EluGrad", "ff", "f", makeElu},
    {"ErfGrad", "ff", "f", make<erfGrad>},           {"GeluGrad", "ff", "f", makeGelu},
    {"HardSigmoidGrad", "ff", "f", makeHardSigmoid}, {"HardSwishGrad", "ff", "f", make<hardSwishGrad>},
    {"LeakyReluGrad", "ff", "f", makeLeakyRelu},     {"MishGrad", "ff", "f", make<mishGrad>},
    {"ReluGrad", "ff", "f", make<reluGrad>},         {"SigmoidGrad", "ff", "f", make<sigmoidGrad>},
    {"SiluGrad", "ff", "f", make<siluGrad>},         {"SinGrad", "ff", "f", make<sinGrad>},
    {"SoftplusGrad", "ff", "f", make<softplusGrad>}, {"SqrtGrad", "ff", "f", make<sqrtGrad>},
    {"TanhGrad", "ff", "f", make<tanhGrad>},
};

} // namespace

std::span<const KernelEntry> unaryGradientKernels() { return kEntries; }

} // namespace planloom::device
