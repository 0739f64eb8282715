// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/groups.h"

// Updates of many parameters by one kernel.
namespace planloom::cuda {

/// A run of parameters, as device::UpdateRange; `first`: elements in the ranges before it, `firstQuad`: quads. A quad
/// is up to 4 elements of a range, side by side.
struct ParameterRange {
    float *parameter;
    float *gradient;
    float *states[4];
    std::uint16_t *copy;
    std::int64_t count;
    std::int64_t first;
    std::int64_t firstQuad;
    float rateFactor;
    float decay;
    std::int32_t tensor;
};

/// Elements of a quad, and those of it that there are.
struct Quad {
    static constexpr int kMost = 4;
    std::int64_t first = 0;
    int count = 0;
    bool wide = false; ///< is read and written at once

    PLANLOOM_KERNEL_CODE void load(const float *from, float (&to)[kMost]) const
    {
        if (wide)
            loadSeveral(From{from, Kind::F32}, first, to);
        else
            unrolled<kMost>([&](int k) { to[k] = k < count ? from[first + k] : 0.0F; });
    }
    PLANLOOM_KERNEL_CODE void put(float *to, const float (&x)[kMost]) const
    {
        if (wide)
            putSeveral(To{to, Kind::F32, false}, first, x);
        else
            unrolled<kMost>([&](int k) {
                if (k < count)
                    to[first + k] = x[k];
            });
    }
    PLANLOOM_KERNEL_CODE void put(std::uint16_t *to, const float (&x)[kMost]) const
    {
#ifdef __CUDA_ARCH__
        if (wide) {
            reinterpret_cast<uint2 *>(to)[first / kMost] = make_uint2(packed(x[0], x[1]), packed(x[2], x[3]));
            return;
        }
#endif
        unrolled<kMost>([&](int k) {
            if (k < count)
                to[first + k] = narrow(x[k]);
        });
    }
};

/// All ranges of an update, in device memory.
struct ParameterRanges {
    const ParameterRange *at = nullptr;
    std::int64_t count = 0;
    std::int64_t elements = 0;
    std::int64_t quads = 0;

    static constexpr int kEach = 8; ///< quads of a thread before its block's next ones

    /// The range of element @p i of all.
    PLANLOOM_KERNEL_CODE const ParameterRange &of(std::int64_t i) const
    {
        std::int64_t low = 0;
        for (std::int64_t high = count; high - low > 1;) {
            const std::int64_t middle = (low + high) / 2;
            if (at[middle].first <= i)
                low = middle;
            else
                high = middle;
        }
        return at[low];
    }
    /// f(own, quad) for the quads of thread @p t, where own is prepare(range).
    template <class P, class F>
    PLANLOOM_KERNEL_CODE void quadsOf(const Block &block, int t, P prepare, F f) const
    {
        const std::int64_t together = std::int64_t{kEach} * block.threads;
        for (std::int64_t first = block.index * together + t; first < quads; first += block.count * together) {
            std::int64_t index = rangeOf(first);
            auto own = prepare(at[index]);
            Quads range(at[index]);
            for (int k = 0; k < kEach; ++k) {
                const std::int64_t number = first + std::int64_t{k} * block.threads;
                if (number >= quads)
                    return;
                if (number >= range.end) {
                    while (number >= at[index].firstQuad + quadsIn(at[index].count))
                        ++index;
                    own = prepare(at[index]);
                    range = Quads(at[index]);
                }
                f(own, range.quad(number));
            }
        }
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE static std::int64_t quadsIn(std::int64_t elements)
    {
        return (elements + Quad::kMost - 1) / Quad::kMost;
    }

private:
    /// Those of a range.
    struct Quads {
        std::int64_t begin, end, count;
        bool aligned;
        PLANLOOM_KERNEL_CODE explicit Quads(const ParameterRange &range)
            : begin(range.firstQuad),
              end(range.firstQuad + quadsIn(range.count)),
              count(range.count)
        {
            auto bits = reinterpret_cast<std::uintptr_t>(range.parameter)
                | reinterpret_cast<std::uintptr_t>(range.gradient) | reinterpret_cast<std::uintptr_t>(range.copy);
            for (const float *state : range.states)
                bits |= reinterpret_cast<std::uintptr_t>(state);
            aligned = bits % sizeof(Words) == 0;
        }
        [[nodiscard]] PLANLOOM_KERNEL_CODE Quad quad(std::int64_t number) const
        {
            Quad made;
            made.first = (number - begin) * Quad::kMost;
            made.count = count - made.first < Quad::kMost ? static_cast<int>(count - made.first) : Quad::kMost;
            made.wide = aligned && made.count == Quad::kMost;
            return made;
        }
    };
    [[nodiscard]] PLANLOOM_KERNEL_CODE std::int64_t rangeOf(std::int64_t quad) const
    {
        std::int64_t low = 0;
        for (std::int64_t high = count; high - low > 1;) {
            const std::int64_t middle = (low + high) / 2;
            if (at[middle].firstQuad <= quad)
                low = middle;
            else
                high = middle;
        }
        return low;
    }
};

/// Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, algorithm 2; bias corrections in rate and
/// rootScale.
struct AdamW {
    ParameterRanges ranges;
    float rate = 0, beta1 = 0, restOf1 = 0, beta2 = 0, restOf2 = 0, epsilon = 0, scale = 1, rootScale = 1;
    double inverseCorrection1 = 1;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        alone(block, [&](int t) {
            ranges.quadsOf(
                block, t, [&](const ParameterRange &range) { return prepared(range); },
                [&](const Own &own, const Quad &quad) { update(own, quad); });
        });
    }

private:
    /// Of a range.
    struct Own {
        float *parameter, *gradient, *first, *second;
        std::uint16_t *copy;
        float keep, step;
    };
    [[nodiscard]] PLANLOOM_KERNEL_CODE Own prepared(const ParameterRange &range) const
    {
        const float own = rate * range.rateFactor;
        return {range.parameter,
                range.gradient,
                range.states[0],
                range.states[1],
                range.copy,
                static_cast<float>(1.0 - static_cast<double>(own) * static_cast<double>(range.decay)),
                static_cast<float>(static_cast<double>(own) * inverseCorrection1)};
    }
    PLANLOOM_KERNEL_CODE void update(const Own &own, const Quad &quad) const
    {
        float parameter[Quad::kMost], gradient[Quad::kMost], first[Quad::kMost], second[Quad::kMost];
        quad.load(own.gradient, gradient);
        quad.load(own.first, first);
        quad.load(own.second, second);
        quad.load(own.parameter, parameter);
        unrolled<Quad::kMost>([&](int k) {
            const float scaled = scale * gradient[k];
            first[k] = beta1 * first[k] + restOf1 * scaled;
            second[k] = beta2 * second[k] + restOf2 * scaled * scaled;
            parameter[k] = own.keep * parameter[k] - own.step * (first[k] / (sqrtf(second[k]) * rootScale + epsilon));
            gradient[k] = 0.0F;
        });
        quad.put(own.first, first);
        quad.put(own.second, second);
        quad.put(own.parameter, parameter);
        quad.put(own.gradient, gradient);
        if (own.copy != nullptr)
            quad.put(own.copy, parameter);
    }
};

/// A step of SGD with momentum over all ranges.
struct Sgd {
    ParameterRanges ranges;
    float rate = 0, momentum = 0, scale = 1;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        block.grid(ranges.elements, [&](std::int64_t number) {
            const ParameterRange &range = ranges.of(number);
            const std::int64_t i = number - range.first;
            float step = scale * range.gradient[i] + range.decay * range.parameter[i];
            if (range.states[0] != nullptr) {
                step += momentum * range.states[0][i];
                range.states[0][i] = step;
            }
            const float updated = range.parameter[i] - rate * range.rateFactor * step;
            range.parameter[i] = updated;
            range.gradient[i] = 0.0F;
            if (range.copy != nullptr)
                range.copy[i] = narrow(updated);
        });
    }
};

/// Per block, the sum of the squared gradients of its share.
struct SquaredNorm {
    ParameterRanges ranges;
    double *sums = nullptr;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const double sum = block.reduce<double>([&](int t) {
            double mine = 0;
            ranges.quadsOf(
                block, t, [](const ParameterRange &range) { return range.gradient; },
                [&](const float *from, const Quad &quad) {
                    float gradient[Quad::kMost];
                    quad.load(from, gradient);
                    unrolled<Quad::kMost>([&](int k) {
                        const auto wide = static_cast<double>(gradient[k]);
                        mine += wide * wide;
                    });
                });
            return mine;
        });
        block.items(1, [&](std::int64_t) { sums[block.index] = sum; });
    }
};

/// One block: the sum of @c count sums.
struct SumOfSums {
    const double *sums = nullptr;
    double *result = nullptr;
    std::int64_t count = 0;
    PLANLOOM_KERNEL_CODE void run(Block &block) const
    {
        const double sum = block.sum<double>(count, [&](std::int64_t i) { return sums[i]; });
        block.items(1, [&](std::int64_t) { *result = sum; });
    }
};

} // namespace planloom::cuda
