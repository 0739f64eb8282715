// SPDX-License-Identifier: Apache-2.0
#include "profiler/host_copies.h"

#include "executor/runtime/clock.h"
#include "profiler/rank_threads.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>
#include <vector>

namespace planloom::profiler {

namespace {

/// Of the last level that there is; 0: the system does not say.
std::int64_t cacheBytes()
{
    std::int64_t bytes = 0;
#ifdef _SC_LEVEL4_CACHE_SIZE
    for (const int level : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE})
        bytes = std::max<std::int64_t>(bytes, sysconf(level));
#endif
    return bytes;
}

std::int64_t memoryBytes()
{
    return std::max<std::int64_t>(0, sysconf(_SC_PHYS_PAGES)) * std::max<std::int64_t>(0, sysconf(_SC_PAGESIZE));
}

} // namespace

std::size_t copiedPieces(std::int64_t cacheBytes, std::int64_t memoryBytes, int ranks)
{
    constexpr std::int64_t kLeast = 8, kMost = 128, kShare = 8;
    const std::int64_t ofAll = 2 * static_cast<std::int64_t>(kCopiedPiece) * std::max(ranks, 1); // both sides
    const std::int64_t wanted = (2 * cacheBytes + ofAll - 1) / ofAll;
    const std::int64_t room = memoryBytes / kShare / ofAll;
    return static_cast<std::size_t>(std::max(kLeast, std::min({wanted, kMost, room})));
}

double hostCopyRate(int ranks)
{
    constexpr std::size_t kPiece = kCopiedPiece;
    constexpr std::size_t kCopies = 24; // at least
    const std::size_t pieces = copiedPieces(cacheBytes(), memoryBytes(), ranks);
    std::vector<double> seconds;
    RankThreads::run(ranks, 1, [&](int rank, RankThreads &all) {
        const std::vector<std::byte> device(kPiece * pieces, std::byte{1});
        std::vector<std::byte> host(kPiece * pieces, std::byte{2});
        all.sync();
        for (std::size_t copy = 0; copy < std::max(pieces, kCopies); ++copy) {
            const std::size_t at = copy % pieces * kPiece;
            const std::int64_t begin = runtime::monotonicNanoseconds();
            std::memcpy(host.data() + at, device.data() + at, kPiece);
            if (rank == 0)
                seconds.push_back(static_cast<double>(runtime::monotonicNanoseconds() - begin) * 1e-9);
        }
    });
    std::ranges::sort(seconds);
    return static_cast<double>(kPiece) / std::max(seconds[seconds.size() / 2], 1e-9);
}

} // namespace planloom::profiler
