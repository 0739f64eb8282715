// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/language.h"

#ifndef __CUDA_ARCH__
#include <vector>
#endif

// Steps of a block for kernels that use tensor cores: values that threads keep in registers, products of small matrices
// by warps, and copies to shared memory that go on beside the work. Threads t of a warp are 32 in a row; lane = t % 32.
// Layouts are those of PTX's mma.m16n8k16 and ldmatrix. Only Block::each() and meet() order what threads do to shared
// memory: between writing and reading it there is one of them.
#ifdef __CUDA_ARCH__
#define PLANLOOM_UNROLLED _Pragma("unroll")
#else
#define PLANLOOM_UNROLLED
#endif

namespace planloom::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kMostHolders = 128; ///< threads of a block that keeps values

/// A value of each of at most @p Threads threads that outlives each().
template <class T, int Threads = kMostHolders>
class Held {
public:
#ifdef __CUDA_ARCH__
    PLANLOOM_KERNEL_CODE T &operator()(int /*thread*/) { return m_value; }

private:
    T m_value;
#else
    T &operator()(int thread) { return m_values[thread]; }

private:
    T m_values[Threads];
#endif
};

/// f(t) by every thread t, which touches nothing that others write.
template <class F>
PLANLOOM_KERNEL_CODE void alone(Block &block, F f)
{
#ifdef __CUDA_ARCH__
    f(static_cast<int>(threadIdx.x));
#else
    block.each(f);
#endif
}

/// What threads wrote before is seen by all afterwards, and what they read before may be overwritten.
PLANLOOM_KERNEL_CODE void meet([[maybe_unused]] Block &block)
{
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
}

/// Two float32 as bfloat16 side by side, the first in the lower half.
PLANLOOM_KERNEL_CODE std::uint32_t packed(float first, float second)
{
#ifdef __CUDA_ARCH__
    std::uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
#else
    return narrow(first) | static_cast<std::uint32_t>(narrow(second)) << 16;
#endif
}

inline constexpr float kLog2E = 1.4426950408889634F;

/// 2^x.
PLANLOOM_KERNEL_CODE float powerOfTwo(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

/// c += a b by each warp: a (16 x 16) and b (16 x 8) bfloat16, c (16 x 8) float32. Of thread t, c(t) are the elements
/// (lane / 4, lane % 4 * 2 + {0, 1}) and the two that are 8 rows below; a(t) pairs (lane / 4 + {0, 8, 0, 8}, lane % 4 *
/// 2 + {0, 0, 8, 8}); b(t) pairs below each other at (lane % 4 * 2 + {0, 8}, lane / 4).
template <class C, class A, class B>
PLANLOOM_KERNEL_CODE void multiply(Block &block, C c, A a, B b)
{
#ifdef __CUDA_ARCH__
    const int t = static_cast<int>(threadIdx.x);
    float *sum = c(t);
    const std::uint32_t *left = a(t);
    const std::uint32_t *right = b(t);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
#else
    const auto half = [](std::uint32_t both, int which) {
        return widen(static_cast<std::uint16_t>(which == 0 ? both & 0xffffU : both >> 16));
    };
    for (int warp = 0; warp < block.threads; warp += kWarp) {
        float left[16][16];
        float right[16][8];
        for (int lane = 0; lane < kWarp; ++lane)
            for (int part = 0; part < 4; ++part)
                for (int i = 0; i < 2; ++i) {
                    left[lane / 4 + part % 2 * 8][lane % 4 * 2 + part / 2 * 8 + i] = half(a(warp + lane)[part], i);
                    if (part < 2)
                        right[lane % 4 * 2 + part * 8 + i][lane / 4] = half(b(warp + lane)[part], i);
                }
        for (int lane = 0; lane < kWarp; ++lane)
            for (int part = 0; part < 4; ++part) {
                float sum = 0;
                for (int k = 0; k < 16; ++k)
                    sum += left[lane / 4 + part / 2 * 8][k] * right[k][lane % 4 * 2 + part % 2];
                c(warp + lane)[part] += sum;
            }
    }
#endif
}

/// Four matrices of 8 x 8 bfloat16 from shared memory to each warp's registers: thread t says by from(t) where row
/// lane % 8 of matrix lane / 8 begins, at a multiple of 16 bytes; to(t) gets of matrix m the pair
/// (lane / 4, lane % 4 * 2 + {0, 1}), or, @p Turned, its transpose's.
template <bool Turned, class To, class From>
PLANLOOM_KERNEL_CODE void loadMatrices(Block &block, To to, From from)
{
#ifdef __CUDA_ARCH__
    const int t = static_cast<int>(threadIdx.x);
    std::uint32_t *pairs = to(t);
    const auto row = static_cast<std::uint32_t>(__cvta_generic_to_shared(from(t)));
    if (Turned)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
                     : "r"(row)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
                     : "r"(row)
                     : "memory");
#else
    for (int warp = 0; warp < block.threads; warp += kWarp)
        for (int matrix = 0; matrix < 4; ++matrix) {
            std::uint16_t elements[8][8];
            for (int row = 0; row < 8; ++row)
                memcpy(elements[row], from(warp + matrix * 8 + row), sizeof elements[row]);
            for (int lane = 0; lane < kWarp; ++lane) {
                const int a = lane / 4;
                const int b = lane % 4 * 2;
                const std::uint32_t first = Turned ? elements[b][a] : elements[a][b];
                const std::uint32_t second = Turned ? elements[b + 1][a] : elements[a][b + 1];
                to(warp + lane)[matrix] = first | second << 16;
            }
        }
#endif
}

/// of(t) of every four threads in a row, joined by @p join, which does not mind the order of its arguments; each gets
/// it.
template <class F, class J>
PLANLOOM_KERNEL_CODE void joinFours(Block &block, F of, J join)
{
#ifdef __CUDA_ARCH__
    float &value = of(static_cast<int>(threadIdx.x));
    value = join(value, __shfl_xor_sync(0xffffffffU, value, 1));
    value = join(value, __shfl_xor_sync(0xffffffffU, value, 2));
#else
    for (int t = 0; t < block.threads; t += 4) {
        const float all = join(join(of(t), of(t + 1)), join(of(t + 2), of(t + 3)));
        for (int i = 0; i < 4; ++i)
            of(t + i) = all;
    }
#endif
}

/// Copies from global to shared memory beside the work. What add() asked for before close() is one group; wait(n) ends
/// when at most the n newest groups are under way, after which meet() shows them to all threads.
class Copies {
public:
    /// Bytes (4 or 16, addresses at multiples of it) by the calling thread; zeros if @p there is false.
    template <int Bytes>
    PLANLOOM_KERNEL_CODE void add(void *to, const void *from, bool there)
    {
#ifdef __CUDA_ARCH__
        const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
        const int size = there ? Bytes : 0;
        if (Bytes == 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(size) : "memory");
        else
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(size) : "memory");
#else
        m_asked.push_back({to, there ? from : nullptr, Bytes, m_groups});
#endif
    }
    PLANLOOM_KERNEL_CODE void close()
    {
#ifdef __CUDA_ARCH__
        asm volatile("cp.async.commit_group;" ::: "memory");
#else
        ++m_groups;
#endif
    }
    template <int Newest>
    PLANLOOM_KERNEL_CODE void wait()
    {
#ifdef __CUDA_ARCH__
        asm volatile("cp.async.wait_group %0;" ::"n"(Newest) : "memory");
#else
        std::size_t done = 0;
        for (; done < m_asked.size() && m_asked[done].group < m_groups - Newest; ++done) {
            const Asked &copy = m_asked[done];
            if (copy.from != nullptr)
                memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.bytes));
            else
                memset(copy.to, 0, static_cast<std::size_t>(copy.bytes));
        }
        m_asked.erase(m_asked.begin(), m_asked.begin() + static_cast<std::ptrdiff_t>(done));
#endif
    }

#ifndef __CUDA_ARCH__
private:
    struct Asked {
        void *to;
        const void *from;
        int bytes;
        int group;
    };
    std::vector<Asked> m_asked; ///< the device copies when it likes: here at the last moment
    int m_groups = 0;
#endif
};

/// Rows of D bfloat16 in shared memory. Pieces of 16 bytes change places within a row, so that eight rows' pieces of
/// one column lie in different banks.
template <int D>
struct HalfTile {
    static_assert(D % 64 == 0);
    static constexpr int kPieces = D / 8; ///< of a row
    std::uint16_t *data = nullptr;

    [[nodiscard]] PLANLOOM_KERNEL_CODE std::uint16_t *piece(int row, int number) const
    {
        return data + row * D + ((number ^ (row & 7)) * 8);
    }
    /// Rows [0, Rows): row(r) is where the r-th lies in global memory, nullptr for one of zeros.
    template <int Rows, class F>
    PLANLOOM_KERNEL_CODE void fill(Block &block, Copies &copies, F row) const
    {
        alone(block, [&](int t) {
            PLANLOOM_UNROLLED
            for (int i = 0; i < Rows * kPieces / kMostHolders; ++i) {
                const int at = t + i * kMostHolders;
                const std::uint16_t *from = row(at / kPieces);
                copies.template add<16>(piece(at / kPieces, at % kPieces),
                                        from != nullptr ? from + at % kPieces * 8 : data, from != nullptr);
            }
        });
    }
    /// As the left factor: rows [first(t), first(t) + 16), columns [column, column + 16); first is one of its warp's.
    template <class To, class First>
    PLANLOOM_KERNEL_CODE void left(Block &block, To to, First first, int column) const
    {
        loadMatrices<false>(block, to, [&](int t) { return piece(first(t) + t % 16, column / 8 + t % kWarp / 16); });
    }
    /// As the right factor, this tile's transpose: columns of it are the rows [row, row + 16), its rows the columns
    /// [column, column + 16). to(t): two right factors of eight columns.
    template <class To>
    PLANLOOM_KERNEL_CODE void rightTurned(Block &block, To to, int row, int column) const
    {
        loadMatrices<false>(block, to,
                            [&](int t) { return piece(row + t % 8 + t % kWarp / 16 * 8, column / 8 + t % 16 / 8); });
    }
    /// As the right factor: rows [row, row + 16), columns [column(t), column(t) + 16); column is one of its warp's.
    /// to(t): two of eight columns.
    template <class To, class Column>
    PLANLOOM_KERNEL_CODE void right(Block &block, To to, int row, Column column) const
    {
        loadMatrices<true>(block, to, [&](int t) { return piece(row + t % 16, column(t) / 8 + t % kWarp / 16); });
    }
    /// As the left factor, this tile's transpose: rows of it are the columns [column(t), column(t) + 16), its columns
    /// the rows [row, row + 16).
    template <class To, class Column>
    PLANLOOM_KERNEL_CODE void leftTurned(Block &block, To to, int row, Column column) const
    {
        loadMatrices<true>(block, to,
                           [&](int t) { return piece(row + t % 8 + t % kWarp / 16 * 8, column(t) / 8 + t % 16 / 8); });
    }
};

} // namespace planloom::cuda
