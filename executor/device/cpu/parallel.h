// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <omp.h>

namespace planloom::device {

#if defined(__SANITIZE_THREAD__) // GCC's: it does not see the barriers of libgomp and would report every loop. LLVM's
                                 // OpenMP tells clang's sanitizer about its own.
inline constexpr bool kThreaded = false;
#else
inline constexpr bool kThreaded = true;
#endif

/// Elements per chunk of a light element-wise loop: 64 KiB of floats, some 10 us, well above the cost of waking a
/// thread.
inline constexpr std::int64_t kGrain = 16384;

/// Calls f(begin, end) for the pieces [0, grain), [grain, 2 grain) ... of [0, n), in parallel. The pieces do not depend
/// on the number of threads, so sums per piece are the same on every machine.
template <class F>
void parallelFor(std::int64_t n, std::int64_t grain, F f)
{
    const std::int64_t chunks = (n + grain - 1) / grain;
    if (chunks <= 1) {
        if (n > 0)
            f(std::int64_t{0}, n);
        return;
    }
#pragma omp parallel for schedule(static) if (kThreaded)
    for (std::int64_t c = 0; c < chunks; ++c)
        f(c * grain, std::min(n, (c + 1) * grain));
}

/// As parallelFor with grain 1, for pieces of unequal cost: f(item, thread) with thread < threads.
template <class F>
void parallelItems(std::int64_t n, int threads, F f)
{
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (kThreaded && n > 1)
    for (std::int64_t i = 0; i < n; ++i)
        f(i, omp_get_thread_num());
}

/// Threads that a kernel made now will use; sizes its per-thread scratch.
inline int threadCount() { return kThreaded ? omp_get_max_threads() : 1; }

/// Rows per chunk so that a chunk has about kGrain elements.
inline std::int64_t rowGrain(std::int64_t rowElements)
{
    return std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, rowElements));
}

} // namespace planloom::device
