// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

// What kernels are written in. A kernel is a plain struct of its arguments with run(Block &); nvcc compiles it for the
// device, any C++ compiler for the processor, where a block's threads are turns of a loop. Threads meet at the end of
// Block::each(), and what they hand on lies in shared memory: so the two do the same, and an order of threads chosen by
// a seed shows where one thread reads what another writes. tensor_cores.h and groups.h add steps without a meeting, and
// steps of whole warps: where a meeting is missing between two of those, the processor's form does not show it.
#ifdef __CUDACC__
#define PLANLOOM_KERNEL_CODE __device__ __forceinline__
#else
#define PLANLOOM_KERNEL_CODE inline
#endif

namespace planloom::cuda {

/// One block of threads at its work.
struct Block {
    std::int64_t index = 0;
    std::int64_t count = 1;  ///< blocks
    int threads = 1;         ///< a power of 2
    float *shared = nullptr; ///< threads doubles: two floats a thread
    float *extra = nullptr;  ///< shared, too: as many floats as the kernel was started with
    std::uint32_t order = 0; ///< where threads are turns of a loop: which permutation of them

    /// f(t) by every thread t. What they write is seen by all afterwards.
    template <class F>
    PLANLOOM_KERNEL_CODE void each(F f)
    {
#ifdef __CUDA_ARCH__
        f(static_cast<int>(threadIdx.x));
        __syncthreads();
#else
        const auto mask = static_cast<std::uint32_t>(threads - 1);
        for (std::uint32_t i = 0; i <= mask; ++i)
            f(static_cast<int>((i * (2 * order + 1) + (order >> 8)) & mask));
#endif
    }

    /// f(i) for i in [0, n), shared out over the block's threads.
    template <class F>
    PLANLOOM_KERNEL_CODE void items(std::int64_t n, F f)
    {
        each([&](int t) {
            for (std::int64_t i = t; i < n; i += threads)
                f(i);
        });
    }

    /// f(i) for i in [0, n), shared out over all threads of all blocks.
    template <class F>
    PLANLOOM_KERNEL_CODE void grid(std::int64_t n, F f)
    {
        each([&](int t) {
            for (std::int64_t i = index * threads + t; i < n; i += count * threads)
                f(i);
        });
    }

    /// f(t) of all threads joined pairwise in a fixed order, for all of them.
    template <class T, class F, class J>
    PLANLOOM_KERNEL_CODE T combine(F f, J join)
    {
        T *values = reinterpret_cast<T *>(shared);
        each([&](int t) { values[t] = f(t); });
        for (int half = threads / 2; half > 0; half /= 2)
            each([&](int t) {
                if (t < half)
                    values[t] = join(values[t], values[t + half]);
            });
        const T result = values[0];
        each([](int) {}); // all have read it before shared memory is used again
        return result;
    }
    /// The sum (or, with @p largest, the maximum) of f(t) over the threads.
    template <class T, class F>
    PLANLOOM_KERNEL_CODE T reduce(F f, bool largest = false)
    {
        return combine<T>(f, [=](T a, T b) { return largest ? (a < b ? b : a) : a + b; });
    }
    /// done(lane, the sum of f(lane, i) over i in [0, n)) for each of @p lanes lanes, a power of 2 of at most @c
    /// threads: threads side by side work on lanes side by side. A T takes at most what the block has for a thread.
    template <class T, class F, class G>
    PLANLOOM_KERNEL_CODE void sumLanes(int lanes, std::int64_t n, F f, G done)
    {
        T *values = reinterpret_cast<T *>(shared);
        each([&](int t) {
            T mine{};
            for (std::int64_t i = t / lanes; i < n; i += threads / lanes)
                mine += f(t % lanes, i);
            values[t] = mine;
        });
        for (int half = threads / 2; half >= lanes; half /= 2)
            each([&](int t) {
                if (t < half)
                    values[t] += values[t + half];
            });
        each([&](int t) {
            if (t < lanes)
                done(t, values[t]);
        });
    }
    /// The sum of f(i) over i in [0, n).
    template <class T, class F>
    PLANLOOM_KERNEL_CODE T sum(std::int64_t n, F f)
    {
        return reduce<T>([&](int t) {
            T mine = 0;
            for (std::int64_t i = t; i < n; i += threads)
                mine += f(i);
            return mine;
        });
    }
    /// The largest f(i), above -infinity.
    template <class F>
    PLANLOOM_KERNEL_CODE float largest(std::int64_t n, F f)
    {
        return reduce<float>(
            [&](int t) {
                float mine = -INFINITY;
                for (std::int64_t i = t; i < n; i += threads) {
                    const float x = f(i);
                    mine = x > mine ? x : mine;
                }
                return mine;
            },
            true);
    }
};

/// Two sums that are made together.
template <class T>
struct Two {
    T a{}, b{};
    PLANLOOM_KERNEL_CODE Two &operator+=(const Two &other)
    {
        a += other.a;
        b += other.b;
        return *this;
    }
};

/// Elements as they lie in memory; arithmetic is in float32. The numbers are graph::DType's.
enum class Kind : std::int32_t { F32 = 0, BF16 = 2, I64 = 4, Bool = 8 };

PLANLOOM_KERNEL_CODE float widen(std::uint16_t half)
{
    const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/// To the nearest, ties to even; a NaN stays one.
PLANLOOM_KERNEL_CODE std::uint16_t narrow(float x)
{
    std::uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffffU) > 0x7f800000U)
        return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// A tensor that is read.
struct From {
    const void *data = nullptr;
    Kind kind = Kind::F32;
    PLANLOOM_KERNEL_CODE float at(std::int64_t i) const
    {
        switch (kind) {
        case Kind::BF16: return widen(static_cast<const std::uint16_t *>(data)[i]);
        case Kind::I64: return static_cast<float>(static_cast<const std::int64_t *>(data)[i]);
        case Kind::Bool: return static_cast<const std::uint8_t *>(data)[i] != 0 ? 1.0F : 0.0F;
        default: return static_cast<const float *>(data)[i];
        }
    }
};

/// A tensor that is written, or added to (float32 only).
struct To {
    void *data = nullptr;
    Kind kind = Kind::F32;
    bool adds = false;
    PLANLOOM_KERNEL_CODE void put(std::int64_t i, float x) const
    {
        switch (kind) {
        case Kind::BF16: static_cast<std::uint16_t *>(data)[i] = narrow(x); return;
        case Kind::I64: static_cast<std::int64_t *>(data)[i] = static_cast<std::int64_t>(x); return;
        case Kind::Bool: static_cast<std::uint8_t *>(data)[i] = x != 0 ? 1 : 0; return;
        default: static_cast<float *>(data)[i] = adds ? static_cast<float *>(data)[i] + x : x;
        }
    }
};

/// Of numbers from 0 on: @p number becomes the quotient, returned is the rest. GPUs divide 32 bits several times
/// faster.
PLANLOOM_KERNEL_CODE std::int64_t restOf(std::int64_t &number, std::int64_t divisor)
{
    if (((number | divisor) >> 32) == 0) {
        const auto a = static_cast<std::uint32_t>(number);
        const auto b = static_cast<std::uint32_t>(divisor);
        number = a / b;
        return a % b;
    }
    const std::int64_t rest = number % divisor;
    number /= divisor;
    return rest;
}

inline constexpr int kMostLoops = 8;

/// A nest of loops that K tensors walk with their own strides, in elements.
template <int K>
struct Loops {
    int depth = 0;
    std::int64_t dims[kMostLoops] = {};
    std::int64_t strides[K][kMostLoops] = {};

    /// Offsets of turn @p turn.
    PLANLOOM_KERNEL_CODE void at(std::int64_t turn, std::int64_t (&offsets)[K]) const
    {
        for (int k = 0; k < K; ++k)
            offsets[k] = 0;
        for (int d = depth - 1; d >= 0; --d) {
            const std::int64_t index = restOf(turn, dims[d]);
            for (int k = 0; k < K; ++k)
                offsets[k] += index * strides[k][d];
        }
    }
};

} // namespace planloom::cuda
