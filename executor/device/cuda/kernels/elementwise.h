// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/groups.h"
#include "executor/device/random_numbers.h"

// Element by element: one kernel, made for each function. a and b are the operator's attributes.
namespace planloom::cuda {

namespace function {

/// A NaN stays one.
PLANLOOM_KERNEL_CODE float clamped(float x, float low, float high) { return x < low ? low : (high < x ? high : x); }
/// x / (1 + exp(-y)), to a few units of the last place.
PLANLOOM_KERNEL_CODE float shareOf(float x, float y)
{
#ifdef __CUDA_ARCH__
    return __fdividef(x, 1.0F + __expf(-y));
#else
    return x / (1.0F + expf(-y));
#endif
}
PLANLOOM_KERNEL_CODE float logistic(float x) { return shareOf(1.0F, x); }
/// Twice what GELU's approximation takes the tanh of: 1 + tanh(y / 2) = 2 logistic(y).
PLANLOOM_KERNEL_CODE float geluScale(float x) { return 1.59576912F * (x + 0.044715F * x * x * x); }
PLANLOOM_KERNEL_CODE float mishRatio(float x)
{
    const float w = expf(x < 20.0F ? x : 20.0F);
    return w * (w + 2.0F);
}

#define PLANLOOM_FUNCTION(Name, expression)                                                                            \
    struct Name {                                                                                                      \
        PLANLOOM_KERNEL_CODE static float at(float x, [[maybe_unused]] float a, [[maybe_unused]] float b)              \
        {                                                                                                              \
            return expression;                                                                                         \
        }                                                                                                              \
    };

PLANLOOM_FUNCTION(Identity, x)
PLANLOOM_FUNCTION(Neg, -x)
PLANLOOM_FUNCTION(Abs, fabsf(x))
PLANLOOM_FUNCTION(Sqrt, sqrtf(x))
PLANLOOM_FUNCTION(Reciprocal, 1.0F / x)
PLANLOOM_FUNCTION(Exp, expf(x))
PLANLOOM_FUNCTION(Log, logf(x))
PLANLOOM_FUNCTION(Erf, erff(x))
PLANLOOM_FUNCTION(Tanh, tanhf(x))
PLANLOOM_FUNCTION(Sigmoid, logistic(x))
PLANLOOM_FUNCTION(Relu, x < 0.0F ? 0.0F : x)
PLANLOOM_FUNCTION(LeakyRelu, x < 0.0F ? a * x : x)
PLANLOOM_FUNCTION(Elu, x < 0.0F ? a * (expf(x) - 1.0F) : x)
PLANLOOM_FUNCTION(Softplus, (x > 0.0F ? x : 0.0F) + log1pf(expf(-fabsf(x))))
PLANLOOM_FUNCTION(HardSigmoid, clamped(a *x + b, 0.0F, 1.0F))
PLANLOOM_FUNCTION(HardSwish, x *clamped(x *(1.0F / 6.0F) + 0.5F, 0.0F, 1.0F))
PLANLOOM_FUNCTION(Silu, shareOf(x, x))
PLANLOOM_FUNCTION(Mish, x *(mishRatio(x) / (mishRatio(x) + 2.0F)))
PLANLOOM_FUNCTION(Clip, clamped(x, a, b))
PLANLOOM_FUNCTION(Sin, sinf(x))
PLANLOOM_FUNCTION(Cos, cosf(x))
PLANLOOM_FUNCTION(Sinh, sinhf(x))
PLANLOOM_FUNCTION(Cosh, coshf(x))
PLANLOOM_FUNCTION(Asin, asinf(x))
PLANLOOM_FUNCTION(Acos, acosf(x))
PLANLOOM_FUNCTION(Atan, atanf(x))
PLANLOOM_FUNCTION(Asinh, asinhf(x))
PLANLOOM_FUNCTION(Acosh, acoshf(x))
PLANLOOM_FUNCTION(Atanh, atanhf(x))
PLANLOOM_FUNCTION(Floor, floorf(x))
PLANLOOM_FUNCTION(Ceil, ceilf(x))
PLANLOOM_FUNCTION(Round, rintf(x))
PLANLOOM_FUNCTION(Sign, static_cast<float>(x > 0.0F) - static_cast<float>(x < 0.0F))
PLANLOOM_FUNCTION(Not, x == 0.0F ? 1.0F : 0.0F)
PLANLOOM_FUNCTION(GeluErf, 0.5F * x * (1.0F + erff(x * 0.70710678F)))
PLANLOOM_FUNCTION(GeluTanh, shareOf(x, geluScale(x)))
#undef PLANLOOM_FUNCTION

// Gradients: v is the operator's input or its output.
#define PLANLOOM_FUNCTION(Name, expression)                                                                            \
    struct Name {                                                                                                      \
        PLANLOOM_KERNEL_CODE static float at(float dy, float v, [[maybe_unused]] float a, [[maybe_unused]] float b)    \
        {                                                                                                              \
            return expression;                                                                                         \
        }                                                                                                              \
    };

PLANLOOM_FUNCTION(ReluGrad, v > 0.0F ? dy : 0.0F)
PLANLOOM_FUNCTION(TanhGrad, dy *(1.0F - v * v))
PLANLOOM_FUNCTION(SigmoidGrad, dy *v *(1.0F - v))
PLANLOOM_FUNCTION(SqrtGrad, 0.5F * dy / v)
PLANLOOM_FUNCTION(SiluGrad, dy *logistic(v) * (1.0F + v * (1.0F - logistic(v))))
PLANLOOM_FUNCTION(ErfGrad, dy * 1.1283791670955126F * expf(-v * v))
PLANLOOM_FUNCTION(AbsGrad, v == 0.0F ? 0.0F : (v < 0.0F ? -dy : dy))
PLANLOOM_FUNCTION(LeakyReluGrad, v < 0.0F ? a * dy : dy)
PLANLOOM_FUNCTION(EluGrad, v < 0.0F ? dy * a * expf(v) : dy)
PLANLOOM_FUNCTION(SoftplusGrad, dy *logistic(v))
PLANLOOM_FUNCTION(ClipGrad, v >= a && v <= b ? dy : 0.0F)
PLANLOOM_FUNCTION(SinGrad, dy *cosf(v))
PLANLOOM_FUNCTION(CosGrad, -dy *sinf(v))
PLANLOOM_FUNCTION(HardSigmoidGrad, a *v + b > 0.0F && a * v + b < 1.0F ? a * dy : 0.0F)
PLANLOOM_FUNCTION(HardSwishGrad, v > -3.0F && v < 3.0F ? dy * (v * (1.0F / 3.0F) + 0.5F) : (v >= 3.0F ? dy : 0.0F))
#undef PLANLOOM_FUNCTION

/// dy * d mish(v)/dv, with one exponential.
struct MishGrad {
    PLANLOOM_KERNEL_CODE static float at(float dy, float v, float, float)
    {
        const float w = expf(v < 20.0F ? v : 20.0F);
        const float ratio = w * (w + 2.0F);
        const float inverse = 1.0F / (ratio + 2.0F);
        return dy * (ratio * inverse + v * (w / (1.0F + w)) * 4.0F * (ratio + 1.0F) * inverse * inverse);
    }
};
/// dy * d gelu(v)/dv, by the error function.
struct GeluErfGrad {
    PLANLOOM_KERNEL_CODE static float at(float dy, float v, float, float)
    {
        const float cdf = 0.5F * (1.0F + erff(v * 0.70710678F));
        return dy * (cdf + v * 0.39894228F * expf(-0.5F * v * v));
    }
};
/// dy * d gelu(v)/dv, of the approximation by tanh.
struct GeluTanhGrad {
    PLANLOOM_KERNEL_CODE static float at(float dy, float v, float, float)
    {
        const float share = logistic(geluScale(v));
        return dy * share * (1.0F + v * (1.0F - share) * 1.59576912F * (1.0F + 0.134145F * v * v));
    }
};

/// A rest of a division, with the divisor's sign.
PLANLOOM_KERNEL_CODE float floorRest(float rest, float divisor)
{
    return rest != 0.0F && (rest < 0.0F) != (divisor < 0.0F) ? rest + divisor : rest;
}

// Of two tensors.
#define PLANLOOM_FUNCTION(Name, expression)                                                                            \
    struct Name {                                                                                                      \
        PLANLOOM_KERNEL_CODE static float at(float x, float y) { return expression; }                                  \
    };

PLANLOOM_FUNCTION(Add, x + y)
PLANLOOM_FUNCTION(Sub, x - y)
PLANLOOM_FUNCTION(Mul, x *y)
PLANLOOM_FUNCTION(Div, x / y)
PLANLOOM_FUNCTION(Pow, powf(x, y))
PLANLOOM_FUNCTION(Min, y < x ? y : x)
PLANLOOM_FUNCTION(Max, x < y ? y : x)
PLANLOOM_FUNCTION(Equal, x == y ? 1.0F : 0.0F)
PLANLOOM_FUNCTION(Less, x < y ? 1.0F : 0.0F)
PLANLOOM_FUNCTION(Greater, x > y ? 1.0F : 0.0F)
PLANLOOM_FUNCTION(LessOrEqual, x <= y ? 1.0F : 0.0F)
PLANLOOM_FUNCTION(GreaterOrEqual, x >= y ? 1.0F : 0.0F)
PLANLOOM_FUNCTION(And, x != 0.0F && y != 0.0F ? 1.0F : 0.0F)
PLANLOOM_FUNCTION(Or, x != 0.0F || y != 0.0F ? 1.0F : 0.0F)
PLANLOOM_FUNCTION(Xor, (x != 0.0F) != (y != 0.0F) ? 1.0F : 0.0F)
PLANLOOM_FUNCTION(Fmod, fmodf(x, y))
PLANLOOM_FUNCTION(Mod, floorRest(fmodf(x, y), y))
#undef PLANLOOM_FUNCTION

} // namespace function

/// Elements that a thread computes together, where all tensors are float32 or bfloat16 and lie at multiples of 16
/// bytes.
inline constexpr int kTogether = 8;

template <class T>
PLANLOOM_KERNEL_CODE bool movesTogether(const T &tensor)
{
    return (tensor.kind == Kind::F32 || tensor.kind == Kind::BF16)
        && reinterpret_cast<std::uintptr_t>(tensor.data) % sizeof(Words) == 0;
}

/// together(i) for i = 0, kTogether, .. and one(i) for the rest of [0, n), by all threads; one(i) alone if not
/// @p several.
template <class G, class F>
PLANLOOM_KERNEL_CODE void overElements(Block &block, std::int64_t n, bool several, G together, F one)
{
    const std::int64_t groups = several ? n / kTogether : 0;
    block.grid(groups, [&](std::int64_t group) { together(group * kTogether); });
    block.grid(n - groups * kTogether, [&](std::int64_t i) { one(groups * kTogether + i); });
}

/// Threads that a kernel over @p n elements wants.
inline std::int64_t threadsOver(std::int64_t n, bool several) { return several ? n / kTogether + kTogether : n; }

/// y = F(x).
template <class F>
struct Unary {
    From x;
    To y;
    std::int64_t n = 0;
    float a = 0, b = 0;
    [[nodiscard]] PLANLOOM_KERNEL_CODE bool several() const { return movesTogether(x) && movesTogether(y); }
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const auto together = [&](std::int64_t i) {
            float v[kTogether];
            loadSeveral(x, i, v);
            unrolled<kTogether>([&](int k) { v[k] = F::at(v[k], a, b); });
            putSeveral(y, i, v);
        };
        overElements(block, n, several(), together, [&](std::int64_t i) { y.put(i, F::at(x.at(i), a, b)); });
    }
};

/// dx = F(dy, v).
template <class F>
struct UnaryGradient {
    From dy, v;
    To dx;
    std::int64_t n = 0;
    float a = 0, b = 0;
    [[nodiscard]] PLANLOOM_KERNEL_CODE bool several() const
    {
        return movesTogether(dy) && movesTogether(v) && movesTogether(dx);
    }
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const auto together = [&](std::int64_t i) {
            float d[kTogether];
            float at[kTogether];
            loadSeveral(dy, i, d);
            loadSeveral(v, i, at);
            unrolled<kTogether>([&](int k) { d[k] = F::at(d[k], at[k], a, b); });
            putSeveral(dx, i, d);
        };
        overElements(block, n, several(), together, [&](std::int64_t i) { dx.put(i, F::at(dy.at(i), v.at(i), a, b)); });
    }
};

/// Whether Binary computes F of 16 bytes at a time.
template <class F>
inline constexpr bool kIsInPieces = false;
template <>
inline constexpr bool kIsInPieces<function::Add> = true;
template <>
inline constexpr bool kIsInPieces<function::Sub> = true;
template <>
inline constexpr bool kIsInPieces<function::Mul> = true;

/// y = F(x0, x1), both broadcast.
template <class F>
struct Binary {
    From x0, x1;
    To y;
    std::int64_t n = 0;
    Loops<2> loops;
    int wide = 0; ///< all are of one kind, float32 or bfloat16, and their neighbours lie side by side in whole pieces
    static constexpr int kInFlight = 4; ///< pieces of a thread, if wide

    /// Of threads.
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t items() const
    {
        const int each = kInFlight * (y.kind == Kind::BF16 ? Pack<std::uint16_t>::kCount : Pack<float>::kCount);
        return wide != 0 ? (n + each - 1) / each : n;
    }
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        if constexpr (kIsInPieces<F>)
            if (wide != 0) {
                asElements(y.kind, [&](auto element) { pieces<decltype(element)>(block); });
                return;
            }
        block.grid(n, [&](std::int64_t i) {
            std::int64_t at[2];
            loops.at(i, at);
            y.put(i, F::at(x0.at(at[0]), x1.at(at[1])));
        });
    }

private:
    struct Both {
        Words a, b;
    };
    template <class E>
    PLANLOOM_KERNEL_CODE void pieces(Block &block) const
    {
        constexpr int kCount = Pack<E>::kCount;
        gridInFlight<kInFlight, Both>(
            block, n / kCount,
            [&](Both &both, std::int64_t i) {
                std::int64_t at[2];
                loops.at(i * kCount, at);
                both = {wordsAt(x0.data, at[0] / kCount), wordsAt(x1.data, at[1] / kCount)};
            },
            [&](const Both &both, std::int64_t i) {
                float values[kCount];
                unrolled<kCount>([&](int e) { values[e] = F::at(Pack<E>::at(both.a, e), Pack<E>::at(both.b, e)); });
                putWords(y.data, i, Pack<E>::of(values));
            });
    }
};

/// y = condition ? x0 : x1, all broadcast.
struct Where {
    From condition, x0, x1;
    To y;
    std::int64_t n = 0;
    Loops<3> loops;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(n, [&](std::int64_t i) {
            std::int64_t at[3];
            loops.at(i, at);
            y.put(i, condition.at(at[0]) != 0.0F ? x0.at(at[1]) : x1.at(at[2]));
        });
    }
};

/// dx = dy where x0 is the smaller one (of their negatives with sign -1), of equal ones too; or where it is not.
struct MinMaxGradient {
    From dy, x0, x1;
    To dx;
    float sign = 1;
    int first = 1;
    std::int64_t n = 0;
    Loops<3> loops;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(n, [&](std::int64_t i) {
            std::int64_t at[3];
            loops.at(i, at);
            const bool firstWins = sign * x0.at(at[1]) <= sign * x1.at(at[2]);
            dx.put(i, firstWins == (first != 0) ? dy.at(at[0]) : 0.0F);
        });
    }
};

/// y = x where the rule keeps an element, scaled, and 0 elsewhere; and which it keeps.
struct Drop {
    From x;
    To y;
    std::uint8_t *mask = nullptr; ///< may be nullptr
    device::DropRule rule;
    std::int64_t n = 0;
    /// Above 0: channels of images that lie pixel by pixel, and their pixels. Elements are numbered channel by channel.
    std::int64_t channels = 0, pixels = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(n, [&](std::int64_t i) {
            const bool kept = rule.keeps(channels > 0 ? numberInRows(i) : i);
            y.put(i, kept ? x.at(i) * rule.scale : 0.0F);
            if (mask != nullptr)
                mask[i] = kept ? 1 : 0;
        });
    }

private:
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t numberInRows(std::int64_t i) const
    {
        std::int64_t rest = i;
        const std::int64_t channel = restOf(rest, channels);
        const std::int64_t pixel = restOf(rest, pixels);
        return (rest * channels + channel) * pixels + pixel;
    }
};

/// y = the sum of up to kMost tensors, in order; or y = y + that.
struct Sum {
    static constexpr int kMost = 8;
    From x[kMost];
    int count = 0;
    To y;
    std::int64_t n = 0;
    int wide = 0;                       ///< all are of one kind, float32 or bfloat16, and aligned
    static constexpr int kInFlight = 4; ///< pieces of a thread, if wide

    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        if (wide != 0) {
            asElements(y.kind, [&](auto element) { pieces<decltype(element)>(block); });
            return;
        }
        block.grid(n, [&](std::int64_t i) { one(i); });
    }

private:
    PLANLOOM_KERNEL_CODE void one(std::int64_t i) const
    {
        float sum = x[0].at(i);
        for (int k = 1; k < count; ++k)
            sum += x[k].at(i);
        y.put(i, sum);
    }
    template <class E>
    PLANLOOM_KERNEL_CODE void pieces(Block &block) const
    {
        constexpr int kCount = Pack<E>::kCount;
        struct Loaded {
            Words first, before;
        };
        gridInFlight<kInFlight, Loaded>(
            block, n / kCount,
            [&](Loaded &loaded, std::int64_t i) {
                loaded.first = wordsAt(x[0].data, i);
                if (y.adds)
                    loaded.before = wordsAt(y.data, i);
            },
            [&](const Loaded &loaded, std::int64_t i) {
                float sums[kCount];
                unrolled<kCount>([&](int e) { sums[e] = Pack<E>::at(loaded.first, e); });
                for (int k = 1; k < count; ++k) {
                    const Words more = wordsAt(x[k].data, i);
                    unrolled<kCount>([&](int e) { sums[e] += Pack<E>::at(more, e); });
                }
                if (y.adds)
                    unrolled<kCount>([&](int e) { sums[e] = Pack<E>::at(loaded.before, e) + sums[e]; });
                putWords(y.data, i, Pack<E>::of(sums));
            });
        block.grid(n % kCount, [&](std::int64_t i) { one(n - 1 - i); });
    }
};

/// to = bytes of @c pattern, lowest first.
struct Fill {
    void *to = nullptr;
    std::uint32_t pattern = 0;
    std::int64_t bytes = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        constexpr std::int64_t kWhole = sizeof(Words);
        const std::int64_t groups = reinterpret_cast<std::uintptr_t>(to) % kWhole == 0 ? bytes / kWhole : 0;
        block.grid(groups, [&](std::int64_t i) { putWords(to, i, {{pattern, pattern, pattern, pattern}}); });
        block.grid(bytes - groups * kWhole, [&](std::int64_t i) {
            static_cast<std::uint8_t *>(to)[groups * kWhole + i] = static_cast<std::uint8_t>(pattern >> (8 * (i % 4)));
        });
    }
};

/// y (rows, columns) = x + bias, and z = the same if it is given; y by GELU if @c gelu says so.
struct BiasAct {
    From x;
    From bias;
    To y, z;
    std::int64_t rows = 0, columns = 0;
    int gelu = 0; ///< 0: none, 1: by erf, 2: by tanh
    [[nodiscard]] PLANLOOM_KERNEL_CODE bool several() const
    {
        return movesTogether(x) && movesTogether(bias) && movesTogether(y) && (z.data == nullptr || movesTogether(z))
            && columns % kTogether == 0;
    }
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const auto together = [&](std::int64_t i) {
            std::int64_t row = i;
            float sum[kTogether];
            float added[kTogether];
            loadSeveral(x, i, sum);
            loadSeveral(bias, restOf(row, columns), added);
            unrolled<kTogether>([&](int k) { sum[k] += added[k]; });
            if (z.data != nullptr)
                putSeveral(z, i, sum);
            unrolled<kTogether>([&](int k) { sum[k] = activated(sum[k]); });
            putSeveral(y, i, sum);
        };
        overElements(block, rows * columns, several(), together, [&](std::int64_t i) {
            std::int64_t row = i;
            const float sum = x.at(i) + bias.at(restOf(row, columns));
            if (z.data != nullptr)
                z.put(i, sum);
            y.put(i, activated(sum));
        });
    }

private:
    [[nodiscard]] PLANLOOM_KERNEL_CODE float activated(float sum) const
    {
        return gelu == 0 ? sum : (gelu == 1 ? function::GeluErf::at(sum, 0, 0) : function::GeluTanh::at(sum, 0, 0));
    }
};

} // namespace planloom::cuda
