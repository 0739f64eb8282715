// SPDX-License-Identifier: Apache-2.0
// Operators on element types other than float32 and int64, which the other files are fast in. Elements are widened one
// by one, to double or to int64, computed by a function and narrowed again: integers exactly, floats rounded once.
// makeKernel asks here last.
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/narrow_floats.h"
#include "executor/device/cpu/strided.h"

#include <cmath>
#include <limits>
#include <map>

namespace planloom::device {

namespace {

using graph::DType;

template <class T>
struct Of {
    using Type = T;
};

/// Calls f(Of<T>) for the type that holds elements of @p type.
template <class F>
Made withType(DType type, F f)
{
    switch (type) {
    case DType::F32: return f(Of<float>{});
    case DType::F64: return f(Of<double>{});
    case DType::F16: return f(Of<Half>{});
    case DType::BF16: return f(Of<BFloat16>{});
    case DType::I64: return f(Of<std::int64_t>{});
    case DType::I32: return f(Of<std::int32_t>{});
    case DType::I8: return f(Of<std::int8_t>{});
    case DType::U8:
    case DType::Bool: break;
    }
    return f(Of<std::uint8_t>{});
}

Error noSuchType(const Request &request)
{
    return cannot(request, std::string("data type ") + graph::name(request.inputs[0].type) + "; convert it with Cast");
}

// --- One input
// --------------------------------------------------------------------------------------------------------------------

using Numbers = std::pair<double, double>; ///< an operator's attributes

struct Unary {
    double (*onFloats)(double x, Numbers);
    std::int64_t (*onIntegers)(std::int64_t x, Numbers) = nullptr;
    const char *first = "alpha";
    double firstDefault = 0;
    const char *second = "beta";
    double secondDefault = 0;
};

std::int64_t limited(double value)
{
    constexpr double kEdge = 9.2e18;
    if (value >= kEdge)
        return std::numeric_limits<std::int64_t>::max();
    return value <= -kEdge ? std::numeric_limits<std::int64_t>::min() : static_cast<std::int64_t>(value);
}

const std::map<std::string_view, Unary> &unaries()
{
    using I = std::int64_t;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    static const std::map<std::string_view, Unary> table = {
        {"Abs", {[](double x, Numbers) { return std::fabs(x); }, [](I x, Numbers) { return x < 0 ? -x : x; }}},
        {"Neg", {[](double x, Numbers) { return -x; }, [](I x, Numbers) { return -x; }}},
        {"Sign",
         {[](double x, Numbers) { return x > 0 ? 1.0 : (x < 0 ? -1.0 : x); },
          [](I x, Numbers) { return I{x > 0} - I{x < 0}; }}},
        {"Relu", {[](double x, Numbers) { return x < 0 ? 0.0 : x; }, [](I x, Numbers) { return x < 0 ? I{0} : x; }}},
        {"Clip",
         {[](double x, Numbers n) { return std::min(std::max(x, n.first), n.second); },
          [](I x, Numbers n) { return std::min(std::max(x, limited(n.first)), limited(n.second)); }, "min", -kInfinity,
          "max", kInfinity}},
        {"Exp", {[](double x, Numbers) { return std::exp(x); }}},
        {"Log", {[](double x, Numbers) { return std::log(x); }}},
        {"Sqrt", {[](double x, Numbers) { return std::sqrt(x); }}},
        {"Reciprocal", {[](double x, Numbers) { return 1 / x; }}},
        {"Floor", {[](double x, Numbers) { return std::floor(x); }}},
        {"Ceil", {[](double x, Numbers) { return std::ceil(x); }}},
        {"Round", {[](double x, Numbers) { return std::nearbyint(x); }}},
        {"Sin", {[](double x, Numbers) { return std::sin(x); }}},
        {"Cos", {[](double x, Numbers) { return std::cos(x); }}},
        {"Tanh", {[](double x, Numbers) { return std::tanh(x); }}},
        {"Erf", {[](double x, Numbers) { return std::erf(x); }}},
        {"Sigmoid", {[](double x, Numbers) { return 1 / (1 + std::exp(-x)); }}},
        {"Softplus", {[](double x, Numbers) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }}},
        {"LeakyRelu", {[](double x, Numbers n) { return x < 0 ? n.first * x : x; }, nullptr, "alpha", 0.01}},
        {"Elu", {[](double x, Numbers n) { return x < 0 ? n.first * std::expm1(x) : x; }, nullptr, "alpha", 1}},
    };
    return table;
}

Made makeUnary(const Request &request)
{
    const Unary &how = unaries().at(request.op.type);
    const std::int64_t n = request.outputs[0].elements();
    if (n != request.inputs[0].elements() || request.inputs[0].type != request.outputs[0].type)
        return wrong(request, "input and output differ in size or data type");
    const Numbers numbers{request.op.number(how.first, how.firstDefault),
                          request.op.number(how.second, how.secondDefault)};
    return withType(request.inputs[0].type, [&]<class T>(Of<T>) -> Made {
        const auto function = [&] {
            if constexpr (kIsFloat<T>)
                return how.onFloats;
            else
                return how.onIntegers;
        }();
        if (function == nullptr)
            return noSuchType(request);
        return makeFunction([=](Inputs in, Outputs out) {
            const T *x = static_cast<const T *>(in[0]);
            T *y = static_cast<T *>(out[0]);
            parallelFor(n, kGrain, [=](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i)
                    y[i] = static_cast<T>(function(widen(x[i]), numbers));
            });
        });
    });
}

// --- Two inputs, with broadcasting
// --------------------------------------------------------------------------------------------------

template <class W>
using BinaryFunction = W (*)(W, W);

struct Binary {
    BinaryFunction<double> onFloats;
    BinaryFunction<std::int64_t> onIntegers;
    bool compares = false;
};

std::int64_t dividedBy(std::int64_t a, std::int64_t b)
{
    if (b == 0)
        return 0;
    return b == -1 ? static_cast<std::int64_t>(-static_cast<std::uint64_t>(a)) : a / b;
}

/// The rest with the divisor's sign.
std::int64_t floorRest(std::int64_t a, std::int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    const std::int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double floorRest(double a, double b)
{
    const double rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::int64_t signedRest(std::int64_t a, std::int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

/// Wraps around as the hardware does.
template <class F>
std::int64_t wrapping(std::int64_t a, std::int64_t b, F f)
{
    return static_cast<std::int64_t>(f(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
}

const std::map<std::string_view, Binary> &binaries()
{
    using I = std::int64_t;
    using U = std::uint64_t;
    static const std::map<std::string_view, Binary> table = {
        {"Add",
         {[](double a, double b) { return a + b; },
          [](I a, I b) { return wrapping(a, b, [](U x, U y) { return x + y; }); }}},
        {"Sub",
         {[](double a, double b) { return a - b; },
          [](I a, I b) { return wrapping(a, b, [](U x, U y) { return x - y; }); }}},
        {"Mul",
         {[](double a, double b) { return a * b; },
          [](I a, I b) { return wrapping(a, b, [](U x, U y) { return x * y; }); }}},
        {"Div", {[](double a, double b) { return a / b; }, dividedBy}},
        {"Min", {[](double a, double b) { return b < a ? b : a; }, [](I a, I b) { return std::min(a, b); }}},
        {"Max", {[](double a, double b) { return a < b ? b : a; }, [](I a, I b) { return std::max(a, b); }}},
        {"Mod", {floorRest, floorRest}},
        {"Equal", {[](double a, double b) { return a == b ? 1.0 : 0.0; }, [](I a, I b) { return I{a == b}; }, true}},
        {"Less", {[](double a, double b) { return a < b ? 1.0 : 0.0; }, [](I a, I b) { return I{a < b}; }, true}},
        {"Greater", {[](double a, double b) { return a > b ? 1.0 : 0.0; }, [](I a, I b) { return I{a > b}; }, true}},
        {"LessOrEqual",
         {[](double a, double b) { return a <= b ? 1.0 : 0.0; }, [](I a, I b) { return I{a <= b}; }, true}},
        {"GreaterOrEqual",
         {[](double a, double b) { return a >= b ? 1.0 : 0.0; }, [](I a, I b) { return I{a >= b}; }, true}},
    };
    return table;
}

Result<LoopNest<3>> pairs(const Request &request)
{
    const auto first = broadcastStrides(request.in(0), request.out());
    const auto second = broadcastStrides(request.in(1), request.out());
    if (first.size() != request.out().size() || second.size() != request.out().size())
        return wrong(request,
                     text(request.in(0)) + " and " + text(request.in(1)) + " do not broadcast to "
                         + text(request.out()));
    return LoopNest<3>(request.out(), {first, second, rowMajorStrides(request.out())});
}

template <class T, class R>
Made makePairs(const LoopNest<3> &nest, BinaryFunction<Wide<T>> function)
{
    return makeFunction([=](Inputs in, Outputs out) {
        const T *a = static_cast<const T *>(in[0]);
        const T *b = static_cast<const T *>(in[1]);
        R *y = static_cast<R *>(out[0]);
        const auto step = nest.innerStrides();
        nest.run([=](const auto &at, std::int64_t n) {
            for (std::int64_t i = 0; i < n; ++i)
                y[at[2] + i * step[2]] =
                    static_cast<R>(function(widen(a[at[0] + i * step[0]]), widen(b[at[1] + i * step[1]])));
        });
    });
}

Made makeBinary(const Request &request)
{
    const Binary &how = binaries().at(request.op.type);
    const DType type = request.inputs[0].type;
    if (request.inputs[1].type != type || request.outputs[0].type != (how.compares ? DType::Bool : type))
        return wrong(request,
                     "inputs and output do not have the data types that belong together; convert one with Cast");
    const auto nest = pairs(request);
    if (!nest)
        return nest.error();
    const bool truncates = request.op.type == "Mod" && request.op.integer("fmod") != 0;
    return withType(type, [&]<class T>(Of<T>) -> Made {
        BinaryFunction<Wide<T>> function;
        if constexpr (kIsFloat<T>)
            function = truncates ? static_cast<BinaryFunction<double>>(std::fmod) : how.onFloats;
        else
            function = truncates ? signedRest : how.onIntegers;
        return how.compares ? makePairs<T, std::uint8_t>(*nest, function) : makePairs<T, T>(*nest, function);
    });
}

/// Base and exponent may have different types; the result has the base's.
std::int64_t integerPower(std::int64_t base, std::int64_t exponent)
{
    if (exponent < 0) // 1 / something: 0 unless that is 1 or -1
        return base == 1 ? 1 : (base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0);
    std::uint64_t result = 1;
    for (auto square = static_cast<std::uint64_t>(base); exponent > 0; exponent /= 2, square *= square)
        result *= exponent % 2 == 1 ? square : 1;
    return static_cast<std::int64_t>(result);
}

template <class T, class E>
T power(T base, E exponent)
{
    if constexpr (!kIsFloat<T> && !kIsFloat<E>)
        return static_cast<T>(integerPower(widen(base), widen(exponent)));
    else if constexpr (!kIsFloat<T>)
        return static_cast<T>(
            limited(std::pow(static_cast<double>(widen(base)), static_cast<double>(widen(exponent)))));
    else
        return static_cast<T>(std::pow(static_cast<double>(widen(base)), static_cast<double>(widen(exponent))));
}

Made makePow(const Request &request)
{
    if (request.inputs[0].type != request.outputs[0].type)
        return wrong(request, "the output should have the base's data type");
    const auto nest = pairs(request);
    if (!nest)
        return nest.error();
    return withType(request.inputs[0].type, [&]<class T>(Of<T>) {
        return withType(request.inputs[1].type, [&]<class E>(Of<E>) {
            return makeFunction([nest = *nest](Inputs in, Outputs out) {
                const T *a = static_cast<const T *>(in[0]);
                const E *b = static_cast<const E *>(in[1]);
                T *y = static_cast<T *>(out[0]);
                const auto step = nest.innerStrides();
                nest.run([=](const auto &at, std::int64_t n) {
                    for (std::int64_t i = 0; i < n; ++i)
                        y[at[2] + i * step[2]] = power(a[at[0] + i * step[0]], b[at[1] + i * step[1]]);
                });
            });
        });
    });
}

// --- Along axes
// -------------------------------------------------------------------------------------------------------------------

template <class W>
struct Reduction {
    W start;
    W (*join)(W, W);
};

template <class W>
Reduction<W> reductionOf(const std::string &type)
{
    if (type == "ReduceMax")
        return {std::numeric_limits<W>::has_infinity ? -std::numeric_limits<W>::infinity()
                                                     : std::numeric_limits<W>::lowest(),
                [](W a, W b) { return std::max(a, b); }};
    if (type == "ReduceMin")
        return {std::numeric_limits<W>::has_infinity ? std::numeric_limits<W>::infinity()
                                                     : std::numeric_limits<W>::max(),
                [](W a, W b) { return std::min(a, b); }};
    if (type == "ReduceProd")
        return {W{1}, [](W a, W b) { return a * b; }};
    return {W{0}, [](W a, W b) { return a + b; }};
}

/// How the result is walked while the input is walked in order: stride 0 along reduced dimensions.
Result<Dims> keptStrides(const Request &request)
{
    const Dims &from = request.in(0);
    const Dims axes = request.op.integers("axes");
    std::vector<bool> reduced(from.size(), axes.empty());
    for (const std::int64_t axis : axes) {
        const auto resolved = resolveAxis(request, axis, from.size());
        if (!resolved)
            return resolved.error();
        reduced[*resolved] = true;
    }
    Dims strides(from.size(), 0);
    std::int64_t kept = 1;
    for (std::size_t d = from.size(); d-- > 0;) {
        strides[d] = reduced[d] ? 0 : kept;
        kept *= reduced[d] ? 1 : from[d];
    }
    if (kept != request.outputs[0].elements() || request.inputs[0].type != request.outputs[0].type)
        return wrong(request, text(from) + " does not reduce to " + text(request.out()));
    return strides;
}

Made makeReduce(const Request &request)
{
    const auto strides = keptStrides(request);
    if (!strides)
        return strides.error();
    const LoopNest<2> nest(request.in(0), {rowMajorStrides(request.in(0)), *strides});
    const std::int64_t n = request.inputs[0].elements();
    const std::int64_t kept = request.outputs[0].elements();
    if (n == 0)
        return cannot(request, "the input has no elements");
    const bool mean = request.op.type == "ReduceMean";
    return withType(request.inputs[0].type, [&]<class T>(Of<T>) {
        using W = Wide<T>;
        const Reduction<W> how = reductionOf<W>(request.op.type);
        const W divisor = mean ? static_cast<W>(n / kept) : W{1};
        return makeFunction([=, sums = std::vector<W>(static_cast<std::size_t>(kept))](Inputs in, Outputs out) mutable {
            std::fill(sums.begin(), sums.end(), how.start);
            const T *x = static_cast<const T *>(in[0]);
            nest.runSerially([&](const auto &at) {
                W &sum = sums[static_cast<std::size_t>(at[1])];
                sum = how.join(sum, widen(x[at[0]]));
            });
            for (std::int64_t k = 0; k < kept; ++k)
                static_cast<T *>(out[0])[k] = static_cast<T>(sums[static_cast<std::size_t>(k)] / divisor);
        });
    });
}

Made makeCumSum(const Request &request)
{
    const auto axis = resolveAxis(request, request.op.integer("axis", 0), request.in(0).size());
    if (!axis)
        return axis.error();
    if (request.in(0) != request.out() || request.inputs[0].type != request.outputs[0].type)
        return wrong(request, "input and output differ in shape or data type");
    const AxisView view = viewAt(request.in(0), *axis);
    const bool reverse = request.op.integer("reverse") != 0;
    const bool exclusive = request.op.integer("exclusive") != 0;
    return withType(request.inputs[0].type, [&]<class T>(Of<T>) {
        return makeFunction([=](Inputs in, Outputs out) {
            parallelFor(view.outer * view.inner, rowGrain(view.n), [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t line = begin; line < end; ++line) {
                    const std::int64_t at = line / view.inner * view.n * view.inner + line % view.inner;
                    Wide<T> sum = 0;
                    for (std::int64_t step = 0; step < view.n; ++step) {
                        const std::int64_t i = at + (reverse ? view.n - 1 - step : step) * view.inner;
                        const Wide<T> before = sum;
                        sum += widen(static_cast<const T *>(in[0])[i]);
                        static_cast<T *>(out[0])[i] = static_cast<T>(exclusive ? before : sum);
                    }
                }
            });
        });
    });
}

Made makeArgExtreme(const Request &request)
{
    const auto axis = resolveAxis(request, request.op.integer("axis", 0), request.in(0).size());
    if (!axis)
        return axis.error();
    const AxisView view = viewAt(request.in(0), *axis);
    if (view.n == 0 || request.outputs[0].elements() != view.outer * view.inner)
        return wrong(request, text(request.in(0)) + " has no extremes of shape " + text(request.out()));
    const bool largest = request.op.type == "ArgMax";
    const bool last = request.op.integer("select_last_index") != 0;
    return withType(request.inputs[0].type, [&]<class T>(Of<T>) {
        return makeFunction([=](Inputs in, Outputs out) {
            parallelFor(view.outer * view.inner, rowGrain(view.n), [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t line = begin; line < end; ++line) {
                    const T *x =
                        static_cast<const T *>(in[0]) + line / view.inner * view.n * view.inner + line % view.inner;
                    std::int64_t best = 0;
                    for (std::int64_t i = 1; i < view.n; ++i) {
                        const auto a = widen(x[i * view.inner]);
                        const auto b = widen(x[best * view.inner]);
                        const bool better = largest ? a > b : a < b;
                        best = better || (last && a == b) ? i : best;
                    }
                    ints(out[0])[line] = best;
                }
            });
        });
    });
}

constexpr KernelEntry kEntries[] = {
    {"Abs", "*", "*", makeUnary},           {"Add", "**", "*", makeBinary},
    {"ArgMax", "*", "i", makeArgExtreme},   {"ArgMin", "*", "i", makeArgExtreme},
    {"Ceil", "*", "*", makeUnary},          {"Clip", "*", "*", makeUnary},
    {"Cos", "*", "*", makeUnary},           {"CumSum", "*", "*", makeCumSum},
    {"Div", "**", "*", makeBinary},         {"Elu", "*", "*", makeUnary},
    {"Equal", "**", "b", makeBinary},       {"Erf", "*", "*", makeUnary},
    {"Exp", "*", "*", makeUnary},           {"Floor", "*", "*", makeUnary},
    {"Greater", "**", "b", makeBinary},     {"GreaterOrEqual", "**", "b", makeBinary},
    {"LeakyRelu", "*", "*", makeUnary},     {"Less", "**", "b", makeBinary},
    {"LessOrEqual", "**", "b", makeBinary}, {"Log", "*", "*", makeUnary},
    {"Max", "**", "*", makeBinary},         {"Min", "**", "*", makeBinary},
    {"Mod", "**", "*", makeBinary},         {"Mul", "**", "*", makeBinary},
    {"Neg", "*", "*", makeUnary},           {"Pow", "**", "*", makePow},
    {"Reciprocal", "*", "*", makeUnary},    {"ReduceMax", "*", "*", makeReduce},
    {"ReduceMean", "*", "*", makeReduce},   {"ReduceMin", "*", "*", makeReduce},
    {"ReduceProd", "*", "*", makeReduce},   {"ReduceSum", "*", "*", makeReduce},
    {"Relu", "*", "*", makeUnary},          {"Round", "*", "*", makeUnary},
    {"Sigmoid", "*", "*", makeUnary},       {"Sign", "*", "*", makeUnary},
    {"Sin", "*", "*", makeUnary},           {"Softplus", "*", "*", makeUnary},
    {"Sqrt", "*", "*", makeUnary},          {"Sub", "**", "*", makeBinary},
    {"Tanh", "*", "*", makeUnary},
};

} // namespace

std::span<const KernelEntry> typedKernels() { return kEntries; }

} // namespace planloom::device
