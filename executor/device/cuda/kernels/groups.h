// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/tensor_cores.h"

// For kernels whose time is that of memory: 16 bytes at a time, and sums by groups of threads, which are 2^bits that
// follow each other, whole warps of a block.
namespace planloom::cuda {

inline constexpr int kWarpBits = 5;
static_assert(1 << kWarpBits == kWarp, "");
inline constexpr int kMostKeepers = 256; ///< threads of a block that keeps values: with 255 registers each they fit

/// A value of each thread that outlives Block::each().
template <class T>
using Kept = Held<T, kMostKeepers>;

/// f(i) for i in [0, N), written one after the other, so that what is indexed by i can be in registers.
template <int N, class F>
PLANLOOM_KERNEL_CODE void unrolled(F f)
{
    PLANLOOM_UNROLLED
    for (int i = 0; i < N; ++i)
        f(i);
}

// --- 16 bytes -------------------------------------------------------------------------------------------------------

/// What one access moves.
struct alignas(16) Words {
    std::uint32_t at[4];
};

PLANLOOM_KERNEL_CODE float floatOf(std::uint32_t bits)
{
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
#endif
}
PLANLOOM_KERNEL_CODE std::uint32_t bitsOf(float x)
{
#ifdef __CUDA_ARCH__
    return __float_as_uint(x);
#else
    std::uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}
/// Whether Words can be read and written there.
inline bool isAligned(const void *address) { return reinterpret_cast<std::uintptr_t>(address) % sizeof(Words) == 0; }

/// Words number @p i from an address that is a multiple of 16.
PLANLOOM_KERNEL_CODE Words wordsAt(const void *data, std::int64_t i)
{
#ifdef __CUDA_ARCH__
    const uint4 words = static_cast<const uint4 *>(data)[i];
    return {{words.x, words.y, words.z, words.w}};
#else
    Words words;
    memcpy(&words, static_cast<const char *>(data) + 16 * i, sizeof words);
    return words;
#endif
}
PLANLOOM_KERNEL_CODE void putWords(void *data, std::int64_t i, const Words &words)
{
#ifdef __CUDA_ARCH__
    static_cast<uint4 *>(data)[i] = make_uint4(words.at[0], words.at[1], words.at[2], words.at[3]);
#else
    memcpy(static_cast<char *>(data) + 16 * i, &words, sizeof words);
#endif
}

/// Elements of 16 bytes: float, or std::uint16_t for bfloat16.
template <class E>
struct Pack;
/// Four of them.
template <>
struct Pack<float> {
    static constexpr int kCount = 4;
    PLANLOOM_KERNEL_CODE static float at(const Words &words, int i) { return floatOf(words.at[i]); }
    PLANLOOM_KERNEL_CODE static Words of(const float (&x)[kCount])
    {
        return {{bitsOf(x[0]), bitsOf(x[1]), bitsOf(x[2]), bitsOf(x[3])}};
    }
};
/// Eight of them.
template <>
struct Pack<std::uint16_t> {
    static constexpr int kCount = 8;
    PLANLOOM_KERNEL_CODE static float at(const Words &words, int i)
    {
        const std::uint32_t both = words.at[i / 2];
        return floatOf(i % 2 == 0 ? both << 16 : both & 0xffff0000U);
    }
    PLANLOOM_KERNEL_CODE static Words of(const float (&x)[kCount])
    {
        return {{packed(x[0], x[1]), packed(x[2], x[3]), packed(x[4], x[5]), packed(x[6], x[7])}};
    }
};

/// f(E()) with the E of float32 or bfloat16.
template <class F>
PLANLOOM_KERNEL_CODE void asElements(Kind kind, F f)
{
    if (kind == Kind::BF16)
        f(std::uint16_t{});
    else
        f(float{});
}

/// Elements [i, i + N) of float32 or bfloat16; i is a multiple of N, which is 4 or 8, the address one of 16.
template <int N>
PLANLOOM_KERNEL_CODE void loadSeveral(const From &from, std::int64_t i, float (&to)[N])
{
    if (from.kind == Kind::F32) {
        Words words[N / 4];
        unrolled<N / 4>([&](int k) { words[k] = wordsAt(from.data, i / 4 + k); });
        unrolled<N>([&](int e) { to[e] = Pack<float>::at(words[e / 4], e % 4); });
    } else if (N == 8) {
        const Words words = wordsAt(from.data, i / 8);
        unrolled<N>([&](int e) { to[e] = Pack<std::uint16_t>::at(words, e); });
    } else {
#ifdef __CUDA_ARCH__
        const uint2 both = static_cast<const uint2 *>(from.data)[i / 4];
        const Words words{{both.x, both.y, 0, 0}};
        unrolled<N>([&](int e) { to[e] = Pack<std::uint16_t>::at(words, e); });
#else
        unrolled<N>([&](int e) { to[e] = widen(static_cast<const std::uint16_t *>(from.data)[i + e]); });
#endif
    }
}
/// The same, to float32 or bfloat16.
template <int N>
PLANLOOM_KERNEL_CODE void putSeveral(const To &to, std::int64_t i, const float (&x)[N])
{
    if (to.kind == Kind::F32 && !to.adds)
        unrolled<N / 4>([&](int k) {
            putWords(to.data, i / 4 + k, Pack<float>::of({x[4 * k], x[4 * k + 1], x[4 * k + 2], x[4 * k + 3]}));
        });
    else if (to.kind == Kind::BF16 && N == 8)
        putWords(to.data, i / 8,
                 Pack<std::uint16_t>::of({x[0], x[1], x[2], x[3], x[N - 4], x[N - 3], x[N - 2], x[N - 1]}));
    else
        unrolled<N>([&](int e) { to.put(i + e, x[e]); });
}

/// f(piece) for pieces [0, @p all), @p InFlight of each of all threads at a time: what load(piece) gives of them,
/// before the first is used.
template <int InFlight, class T, class L, class F>
PLANLOOM_KERNEL_CODE void gridInFlight(Block &block, std::int64_t all, L load, F f)
{
    alone(block, [&](int t) {
        const std::int64_t step = block.count * block.threads;
        for (std::int64_t i = block.index * block.threads + t; i < all; i += InFlight * step) {
            T loaded[InFlight];
            unrolled<InFlight>([&](int k) {
                if (i + k * step < all)
                    load(loaded[k], i + k * step);
            });
            unrolled<InFlight>([&](int k) {
                if (i + k * step < all)
                    f(loaded[k], i + k * step);
            });
        }
    });
}

// --- Groups ---------------------------------------------------------------------------------------------------------

#ifdef __CUDA_ARCH__
/// What the thread of the warp whose number differs in @p mask has.
template <class T>
PLANLOOM_KERNEL_CODE T exchanged(const T &own, int mask)
{
    static_assert(sizeof(T) % sizeof(std::uint32_t) == 0, "");
    constexpr int kWords = sizeof(T) / sizeof(std::uint32_t);
    std::uint32_t words[kWords];
    memcpy(words, &own, sizeof own);
    unrolled<kWords>([&](int i) { words[i] = __shfl_xor_sync(0xffffffffU, words[i], mask); });
    T other;
    memcpy(&other, words, sizeof other);
    return other;
}
#endif

/// The values of each group's threads joined, in a fixed order, for all of them. A T takes at most what the block has
/// for a thread.
template <class T, class J>
PLANLOOM_KERNEL_CODE void joinGroups(Block &block, int bits, Kept<T> &values, J join)
{
#ifdef __CUDA_ARCH__
    T &own = values(0);
    unrolled<kWarpBits>([&](int i) { own = join(own, exchanged(own, kWarp / 2 >> i)); });
#else
    for (int warp = 0; warp < block.threads; warp += kWarp)
        for (int mask = kWarp / 2; mask > 0; mask /= 2) {
            T before[kWarp];
            for (int lane = 0; lane < kWarp; ++lane)
                before[lane] = values(warp + lane);
            for (int lane = 0; lane < kWarp; ++lane)
                values(warp + lane) = join(before[lane], before[lane ^ mask]);
        }
#endif
    if (bits == kWarpBits)
        return;
    T *ofWarps = reinterpret_cast<T *>(block.shared);
    block.each([&](int t) {
        if (t % kWarp == 0)
            ofWarps[t >> kWarpBits] = values(t);
    });
    block.each([&](int t) {
        const int first = t >> bits << (bits - kWarpBits);
        T all = ofWarps[first];
        for (int i = 1; i < 1 << (bits - kWarpBits); ++i)
            all = join(all, ofWarps[first + i]);
        values(t) = all;
    });
}
template <class T>
PLANLOOM_KERNEL_CODE void sumGroups(Block &block, int bits, Kept<T> &values)
{
    joinGroups(block, bits, values, [](T a, const T &b) { return a += b; });
}

/// Pieces of 16 bytes of a row that a thread keeps in registers.
inline constexpr int kPieces = 4;

/// The smallest group that keeps rows of @p pieces; 0: none does.
inline int groupBitsFor(std::int64_t pieces)
{
    for (int bits = kWarpBits; 1 << bits <= kMostKeepers; ++bits)
        if (pieces <= std::int64_t{kPieces} << bits)
            return bits;
    return 0;
}

// --- Warps ----------------------------------------------------------------------------------------------------------

/// A warp that works on its own: its threads meet at the end of each().
struct Warp {
    int number = 0;          ///< in its block
    std::uint32_t order = 0; ///< as Block::order

    /// f(lane) by every thread. What they write is seen by the warp's others afterwards.
    template <class F>
    PLANLOOM_KERNEL_CODE void each(F f) const
    {
#ifdef __CUDA_ARCH__
        f(static_cast<int>(threadIdx.x % kWarp));
        __syncwarp();
#else
        for (std::uint32_t i = 0; i < kWarp; ++i)
            f(static_cast<int>((i * (2 * order + 1) + (order >> 8)) % kWarp));
#endif
    }
    /// The lanes of which f(lane) is true, as bits.
    template <class F>
    PLANLOOM_KERNEL_CODE std::uint32_t ballot(F f) const
    {
#ifdef __CUDA_ARCH__
        return __ballot_sync(0xffffffffU, f(static_cast<int>(threadIdx.x % kWarp)) ? 1 : 0);
#else
        std::uint32_t bits = 0;
        for (int lane = 0; lane < kWarp; ++lane)
            bits |= f(lane) ? 1U << lane : 0U;
        return bits;
#endif
    }
};

/// A value of each lane that outlives Warp::each().
template <class T>
using OfLanes = Held<T, kWarp>;

/// f(warp) by every warp of the block, none of which reads what others write.
template <class F>
PLANLOOM_KERNEL_CODE void warps(Block &block, F f)
{
#ifdef __CUDA_ARCH__
    (void)block;
    f(Warp{static_cast<int>(threadIdx.x >> kWarpBits), 0});
#else
    for (int i = 0; i < block.threads; i += kWarp)
        f(Warp{(block.order % 2 == 0 ? i : block.threads - kWarp - i) / kWarp, block.order});
#endif
}

PLANLOOM_KERNEL_CODE int countOf(std::uint32_t bits)
{
#ifdef __CUDA_ARCH__
    return __popc(bits);
#else
    return __builtin_popcount(bits);
#endif
}

// --- Rows that begin anywhere ---------------------------------------------------------------------------------------

/// A row of float32 or bfloat16 that a group's threads share out: elements before the first whole 16 bytes, those, and
/// the elements behind.
template <class E>
struct RowPieces {
    static constexpr int kCount = Pack<E>::kCount;
    const E *first = nullptr;
    int head = 0, pieces = 0, size = 0;

    PLANLOOM_KERNEL_CODE RowPieces(const void *data, std::int64_t begin, std::int64_t n)
        : first(static_cast<const E *>(data) + begin),
          head((kCount - phase(first)) & (kCount - 1)),
          size(static_cast<int>(n))
    {
        head = head < size ? head : size;
        pieces = (size - head) / kCount;
    }
    /// How many elements behind a multiple of 16 bytes.
    PLANLOOM_KERNEL_CODE static int phase(const void *address)
    {
        return static_cast<int>(reinterpret_cast<std::uintptr_t>(address) % sizeof(Words) / sizeof(E));
    }
    PLANLOOM_KERNEL_CODE static float valueOf(E element)
    {
        if constexpr (sizeof(E) == sizeof(float))
            return element;
        else
            return widen(element);
    }
    [[nodiscard]] PLANLOOM_KERNEL_CODE float at(std::int64_t i) const { return valueOf(first[i]); }
    [[nodiscard]] PLANLOOM_KERNEL_CODE Words piece(int i) const { return wordsAt(first + head, i); }
    /// f(i) for the elements outside of the pieces that are those of thread @p lane of 2^bits.
    template <class F>
    PLANLOOM_KERNEL_CODE void others(int lane, int bits, F f) const
    {
        for (int i = lane; i < head; i += 1 << bits)
            f(i);
        for (int i = head + pieces * kCount + lane; i < size; i += 1 << bits)
            f(i);
    }
};

} // namespace planloom::cuda
