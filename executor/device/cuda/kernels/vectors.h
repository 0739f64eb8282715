// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/kernels/language.h"

// Several elements at once.
namespace planloom::cuda {

#ifdef __CUDACC__
#define PLANLOOM_UNROLL _Pragma("unroll")
#else
#define PLANLOOM_UNROLL
#endif

/// What one instruction reads or writes, at an address that is a multiple of 16.
struct alignas(16) Bytes16 {
    std::uint32_t words[4];
};

PLANLOOM_KERNEL_CODE Bytes16 load16(const void *from)
{
#ifdef __CUDA_ARCH__
    const uint4 bytes = *static_cast<const uint4 *>(from);
    return {bytes.x, bytes.y, bytes.z, bytes.w};
#else
    Bytes16 made;
    memcpy(&made, __builtin_assume_aligned(from, sizeof made), sizeof made);
    return made;
#endif
}

PLANLOOM_KERNEL_CODE void store16(void *to, const Bytes16 &bytes)
{
#ifdef __CUDA_ARCH__
    // The compiler cuts an assignment in four.
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(bytes.words[0]),
                 "r"(bytes.words[1]), "r"(bytes.words[2]), "r"(bytes.words[3])
                 : "memory");
#else
    memcpy(__builtin_assume_aligned(to, sizeof bytes), &bytes, sizeof bytes);
#endif
}

} // namespace planloom::cuda
