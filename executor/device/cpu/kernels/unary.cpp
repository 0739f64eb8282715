// SPDX-License-Identifier: Apache-2.0
// Element-wise operators of one input. A function here works on one piece of a tensor; a and b are the operator's
// attributes.
#include "executor/device/cpu/gelu.h"
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/simd.h"

namespace planloom::device {

namespace {

using Piece = void (*)(const float *x, float *y, std::int64_t n, float a, float b);

PLANLOOM_CLONES void neg(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = -x[i];
}

PLANLOOM_CLONES void abs(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = std::fabs(x[i]);
}

PLANLOOM_CLONES void squareRoot(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = std::sqrt(x[i]);
}

PLANLOOM_CLONES void reciprocal(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = 1.0F / x[i];
}

PLANLOOM_CLONES void exponential(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = simd::exp(x[i]);
}

void logarithm(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = std::log(x[i]);
}

PLANLOOM_CLONES void errorFunction(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = simd::erf(x[i]);
}

PLANLOOM_CLONES void tangens(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = simd::tanh(x[i]);
}

PLANLOOM_CLONES void sigmoid(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = simd::sigmoid(x[i]);
}

PLANLOOM_CLONES void relu(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = x[i] < 0.0F ? 0.0F : x[i]; // this way round a NaN stays one
}

PLANLOOM_CLONES void leakyRelu(const float *x, float *y, std::int64_t n, float a, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = x[i] < 0.0F ? a * x[i] : x[i];
}

PLANLOOM_CLONES void elu(const float *x, float *y, std::int64_t n, float a, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = x[i] < 0.0F ? a * (simd::exp(x[i]) - 1.0F) : x[i];
}

void softplus(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = std::max(x[i], 0.0F) + std::log1p(std::exp(-std::fabs(x[i])));
}

PLANLOOM_CLONES void hardSigmoid(const float *x, float *y, std::int64_t n, float a, float b)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = std::min(std::max(a * x[i] + b, 0.0F), 1.0F);
}

PLANLOOM_CLONES void hardSwish(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = x[i] * std::min(std::max(x[i] * (1.0F / 6.0F) + 0.5F, 0.0F), 1.0F);
}

PLANLOOM_CLONES void silu(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = x[i] * simd::sigmoid(x[i]);
}

/// x tanh(log(1 + e^x)), the tanh written as n / (n + 2) with n = e^x (e^x + 2): nothing cancels. From 20 on it is 1.
PLANLOOM_CLONES void mish(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i) {
        const float w = simd::exp(std::min(x[i], 20.0F));
        const float ratio = w * (w + 2.0F);
        y[i] = x[i] * (ratio / (ratio + 2.0F));
    }
}

PLANLOOM_CLONES void clip(const float *x, float *y, std::int64_t n, float a, float b)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = std::min(std::max(x[i], a), b);
}

void sine(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = std::sin(x[i]);
}

void cosine(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = std::cos(x[i]);
}

void floorOf(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = std::floor(x[i]);
}

void ceiling(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = std::ceil(x[i]);
}

void roundEven(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = std::nearbyint(x[i]);
}

void signOf(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = static_cast<float>(x[i] > 0.0F) - static_cast<float>(x[i] < 0.0F);
}

/// The functions of trigonometry that networks rarely use, in double.
template <double (*F)(double)>
void inDouble(const float *x, float *y, std::int64_t n, float, float)
{
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = static_cast<float>(F(static_cast<double>(x[i])));
}

Made makePiecewise(const Request &request, Piece piece, float a = 0, float b = 0)
{
    const std::int64_t n = request.inputs[0].elements();
    if (n != request.outputs[0].elements())
        return wrong(request,
                     "input " + text(request.in(0)) + " and output " + text(request.out()) + " differ in size");
    return makeFunction([=](Inputs in, Outputs out) {
        const float *x = floats(in[0]);
        float *y = floats(out[0]);
        parallelFor(n, kGrain,
                    [=](std::int64_t begin, std::int64_t end) { piece(x + begin, y + begin, end - begin, a, b); });
    });
}

template <Piece piece>
Made make(const Request &request)
{
    return makePiecewise(request, piece);
}

/// The attributes' names and defaults are ONNX's.
Made makeLeakyRelu(const Request &r)
{
    return makePiecewise(r, leakyRelu, static_cast<float>(r.op.number("alpha", 0.01)));
}
Made makeElu(const Request &r) { return makePiecewise(r, elu, static_cast<float>(r.op.number("alpha", 1.0))); }
Made makeHardSigmoid(const Request &r)
{
    return makePiecewise(r, hardSigmoid, static_cast<float>(r.op.number("alpha", 0.2)),
                         static_cast<float>(r.op.number("beta", 0.5)));
}
Made makeGelu(const Request &r)
{
    const Piece byTanh = [](const float *x, float *y, std::int64_t n, float, float) { geluTanh(x, y, n); };
    const Piece byErf = [](const float *x, float *y, std::int64_t n, float, float) { geluErf(x, y, n); };
    return makePiecewise(r, r.op.text("approximate", "none") == "tanh" ? byTanh : byErf);
}
Made makeClip(const Request &r)
{
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return makePiecewise(r, clip, static_cast<float>(r.op.number("min", -kInfinity)),
                         static_cast<float>(r.op.number("max", kInfinity)));
}

Made makeNot(const Request &request)
{
    const std::int64_t n = request.outputs[0].elements();
    if (n != request.inputs[0].elements())
        return wrong(request, "input and output differ in size");
    return makeFunction([=](Inputs in, Outputs out) {
        const auto *x = static_cast<const std::uint8_t *>(in[0]);
        auto *y = static_cast<std::uint8_t *>(out[0]);
        for (std::int64_t i = 0; i < n; ++i)
            y[i] = x[i] == 0;
    });
}

constexpr KernelEntry kEntries[] = {
    {"Abs", "f", "f", make<abs>},
    {"Acos", "f", "f", make<inDouble<::acos>>},
    {"Acosh", "f", "f", make<inDouble<::acosh>>},
    {"Asin", "f", "f", make<inDouble<::asin>>},
    {"Asinh", "f", "f", make<inDouble<::asinh>>},
    {"Atan", "f", "f", make<inDouble<::atan>>},
    {"Atanh", "f", "f", make<inDouble<::atanh>>},
    {"Ceil", "f", "f", make<ceiling>},
    {"Clip", "f", "f", makeClip},
    {"Cos", "f", "f", make<cosine>},
    {"Cosh", "f", "f", make<inDouble<::cosh>>},
    {"Elu", "f", "f", makeElu},
    {"Erf", "f", "f", make<errorFunction>},
    {"Exp", "f", "f", make<exponential>},
    {"Floor", "f", "f", make<floorOf>},
    {"Gelu", "f", "f", makeGelu},
    {"HardSigmoid", "f", "f", makeHardSigmoid},
    {"HardSwish", "f", "f", make<hardSwish>},
    {"LeakyRelu", "f", "f", makeLeakyRelu},
    {"Log", "f", "f", make<logarithm>},
    {"Mish", "f", "f", make<mish>},
    {"Neg", "f", "f", make<neg>},
    {"Not", "b", "b", makeNot},
    {"Reciprocal", "f", "f", make<reciprocal>},
    {"Relu", "f", "f", make<relu>},
    {"Round", "f", "f", make<roundEven>},
    {"Sigmoid", "f", "f", make<sigmoid>},
    {"Sign", "f", "f", make<signOf>},
    {"Silu", "f", "f", make<silu>},
    {"Sin", "f", "f", make<sine>},
    {"Sinh", "f", "f", make<inDouble<::sinh>>},
    {"Softplus", "f", "f", make<softplus>},
    {"Sqrt", "f", "f", make<squareRoot>},
    {"Tanh", "f", "f", make<tangens>},
};

} // namespace

std::span<const KernelEntry> unaryKernels() { return kEntries; }

} // namespace planloom::device
