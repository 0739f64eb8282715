// SPDX-License-Identifier: Apache-2.0
// Element-wise operators of two inputs with numpy broadcasting, and sums of many tensors.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/strided.h"

#include <cmath>
#include <type_traits>

namespace planloom::device {

namespace {

template <class T, class R, class F>
void binaryRow(const T *a, std::int64_t stepA, const T *b, std::int64_t stepB, R *y, std::int64_t n, F f)
{
    if (stepA == 1 && stepB == 1) {
        for (std::int64_t i = 0; i < n; ++i)
            y[i] = static_cast<R>(f(a[i], b[i]));
        return;
    }
    if (stepA == 1 && stepB == 0) {
        const T fixed = *b;
        for (std::int64_t i = 0; i < n; ++i)
            y[i] = static_cast<R>(f(a[i], fixed));
        return;
    }
    for (std::int64_t i = 0; i < n; ++i)
        y[i] = static_cast<R>(f(a[i * stepA], b[i * stepB]));
}

template <class T, class R, class F>
Made makeBinary(const Request &request, F f)
{
    const auto stridesA = broadcastStrides(request.in(0), request.out());
    const auto stridesB = broadcastStrides(request.in(1), request.out());
    if (stridesA.size() != request.out().size() || stridesB.size() != request.out().size())
        return wrong(request,
                     text(request.in(0)) + " and " + text(request.in(1)) + " do not broadcast to "
                         + text(request.out()));
    const LoopNest<3> nest(request.out(), {stridesA, stridesB, rowMajorStrides(request.out())});
    return makeFunction([nest, f](Inputs in, Outputs out) {
        const T *a = static_cast<const T *>(in[0]);
        const T *b = static_cast<const T *>(in[1]);
        R *y = static_cast<R *>(out[0]);
        const auto &steps = nest.innerStrides();
        nest.run([=](const auto &at, std::int64_t n) {
            binaryRow(a + at[0], steps[0], b + at[1], steps[1], y + at[2], n, f);
        });
    });
}

/// For float32 and int64 alike; the output has the inputs' type, or Bool where F compares.
template <class F>
Made makeArithmetic(const Request &request)
{
    using graph::DType;
    const DType type = request.inputs[0].type;
    if (type != request.inputs[1].type)
        return wrong(request, "inputs of different data types; convert one with Cast");
    constexpr bool kCompares = std::is_same_v<decltype(F{}(1.0F, 1.0F)), bool>;
    const DType expected = kCompares ? DType::Bool : type;
    if (request.outputs[0].type != expected)
        return wrong(request, std::string("the output should be ") + graph::name(expected));
    if (type == DType::F32)
        return makeBinary<float, std::conditional_t<kCompares, std::uint8_t, float>>(request, F{});
    if (type == DType::I64)
        return makeBinary<std::int64_t, std::conditional_t<kCompares, std::uint8_t, std::int64_t>>(request, F{});
    if constexpr (kCompares) {
        if (type == DType::Bool)
            return makeBinary<std::uint8_t, std::uint8_t>(request, F{});
    }
    return cannot(request, std::string("data type ") + graph::name(type) + "; convert it with Cast");
}

struct Add {
    template <class T>
    T operator()(T a, T b) const
    {
        return a + b;
    }
};
struct Sub {
    template <class T>
    T operator()(T a, T b) const
    {
        return a - b;
    }
};
struct Mul {
    template <class T>
    T operator()(T a, T b) const
    {
        return a * b;
    }
};
struct Div {
    float operator()(float a, float b) const { return a / b; }
    std::int64_t operator()(std::int64_t a, std::int64_t b) const
    {
        if (b == 0)
            return 0;
        return b == -1 ? static_cast<std::int64_t>(-static_cast<std::uint64_t>(a)) : a / b;
    }
};
struct Min {
    template <class T>
    T operator()(T a, T b) const
    {
        return b < a ? b : a;
    }
};
struct Max {
    template <class T>
    T operator()(T a, T b) const
    {
        return a < b ? b : a;
    }
};
struct Equal {
    template <class T>
    bool operator()(T a, T b) const
    {
        return a == b;
    }
};
struct Less {
    template <class T>
    bool operator()(T a, T b) const
    {
        return a < b;
    }
};
struct Greater {
    template <class T>
    bool operator()(T a, T b) const
    {
        return a > b;
    }
};
struct LessOrEqual {
    template <class T>
    bool operator()(T a, T b) const
    {
        return a <= b;
    }
};
struct GreaterOrEqual {
    template <class T>
    bool operator()(T a, T b) const
    {
        return a >= b;
    }
};

Made makePow(const Request &request)
{
    return makeBinary<float, float>(request, [](float a, float b) {
        if (b == 2.0F)
            return a * a;
        return std::pow(a, b);
    });
}

Made makeAnd(const Request &request)
{
    return makeBinary<std::uint8_t, std::uint8_t>(request,
                                                  [](std::uint8_t a, std::uint8_t b) { return a != 0 && b != 0; });
}

Made makeOr(const Request &request)
{
    return makeBinary<std::uint8_t, std::uint8_t>(request,
                                                  [](std::uint8_t a, std::uint8_t b) { return a != 0 || b != 0; });
}

Made makeXor(const Request &request)
{
    return makeBinary<std::uint8_t, std::uint8_t>(request,
                                                  [](std::uint8_t a, std::uint8_t b) { return (a != 0) != (b != 0); });
}

/// MinMaxGrad: where both inputs are equal, input 0 takes the gradient.
Made makeMinMaxGrad(const Request &request)
{
    std::array<std::vector<std::int64_t>, 4> strides;
    for (std::size_t i = 0; i < 3; ++i) {
        strides[i] = broadcastStrides(request.in(i), request.out());
        if (strides[i].size() != request.out().size())
            return wrong(request, text(request.in(i)) + " does not broadcast to " + text(request.out()));
    }
    strides[3] = rowMajorStrides(request.out());
    const std::string kind = request.op.text("op", "Min");
    if (kind != "Min" && kind != "Max")
        return wrong(request, "attribute op must be Min or Max");
    const float sign = kind == "Min" ? 1.0F : -1.0F;
    const bool first = request.op.integer("which", 0) == 0;
    const LoopNest<4> nest(request.out(), strides);
    return makeFunction([nest, sign, first](Inputs in, Outputs out) {
        const float *dy = floats(in[0]);
        const float *a = floats(in[1]);
        const float *b = floats(in[2]);
        float *dx = floats(out[0]);
        const auto step = nest.innerStrides();
        nest.run([=](const auto &at, std::int64_t n) {
            for (std::int64_t i = 0; i < n; ++i) {
                const bool firstWins = sign * a[at[1] + i * step[1]] <= sign * b[at[2] + i * step[2]];
                dx[at[3] + i * step[3]] = firstWins == first ? dy[at[0] + i * step[0]] : 0.0F;
            }
        });
    });
}

Made makeAddN(const Request &request)
{
    const std::int64_t n = request.outputs[0].elements();
    for (const Argument &input : request.inputs) {
        if (input.elements() != n)
            return wrong(request, text(input.dims) + " and " + text(request.out()) + " differ in size");
    }
    return makeFunction([n](Inputs in, Outputs out) {
        float *y = floats(out[0]);
        parallelFor(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
            const float *first = floats(in[0]);
            if (in.size() == 1) {
                std::copy(first + begin, first + end, y + begin);
                return;
            }
            const float *second = floats(in[1]);
            for (std::int64_t i = begin; i < end; ++i)
                y[i] = first[i] + second[i];
            for (std::size_t k = 2; k < in.size(); ++k) {
                const float *x = floats(in[k]);
                for (std::int64_t i = begin; i < end; ++i)
                    y[i] += x[i];
            }
        });
    });
}

constexpr KernelEntry kEntries[] = {
    {"Add", "**", "*", makeArithmetic<Add>},
    {"AddN", "f+", "f", makeAddN},
    {"And", "bb", "b", makeAnd},
    {"Div", "**", "*", makeArithmetic<Div>},
    {"Equal", "**", "b", makeArithmetic<Equal>},
    {"Greater", "**", "b", makeArithmetic<Greater>},
    {"GreaterOrEqual", "**", "b", makeArithmetic<GreaterOrEqual>},
    {"Less", "**", "b", makeArithmetic<Less>},
    {"LessOrEqual", "**", "b", makeArithmetic<LessOrEqual>},
    {"Max", "**", "*", makeArithmetic<Max>},
    {"Min", "**", "*", makeArithmetic<Min>},
    {"MinMaxGrad", "fff", "f", makeMinMaxGrad},
    {"Mul", "**", "*", makeArithmetic<Mul>},
    {"Or", "bb", "b", makeOr},
    {"Pow", "ff", "f", makePow},
    {"Sub", "**", "*", makeArithmetic<Sub>},
    {"Xor", "bb", "b", makeXor},
};

} // namespace

std::span<const KernelEntry> binaryKernels() { return kEntries; }

} // namespace planloom::device
