// SPDX-License-Identifier: Apache-2.0
#include "profiler/host_copies.h"

#include "executor/runtime/clock.h"
#include "profiler/rank_threads.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace planloom::profiler {

double hostCopyRate(int ranks)
{
    constexpr std::size_t kPiece = std::size_t{4} << 20; // bytes of a copy: an activation of some size
    constexpr std::size_t kPieces = 8;                   // on each side: more than caches hold
    constexpr std::size_t kRounds = 3;
    std::vector<double> seconds;
    RankThreads::run(ranks, 1, [&](int rank, RankThreads &all) {
        const std::vector<std::byte> device(kPiece * kPieces, std::byte{1});
        std::vector<std::byte> host(kPiece * kPieces, std::byte{2});
        all.sync();
        for (std::size_t copy = 0; copy < kPieces * kRounds; ++copy) {
            const std::size_t at = copy % kPieces * kPiece;
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
