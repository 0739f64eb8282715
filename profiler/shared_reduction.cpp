// SPDX-License-Identifier: Apache-2.0
#include "profiler/shared_reduction.h"

#include "executor/device/kernel.h"
#include "executor/runtime/clock.h"
#include "profiler/rank_threads.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace planloom::profiler {
namespace {

constexpr std::int64_t kMostFloats = 16 << 20; ///< 64 MiB: larger ones go at the same rate
constexpr int kRepetitions = 9;

/// One rank's part of the reduction: its gradients into the segment, its share of the sums, all sums back.
void reduceOnce(RankThreads &all, std::size_t rank, std::vector<float> &own, std::vector<std::vector<float>> &segments)
{
    const std::size_t ranks = segments.size();
    std::memcpy(segments[rank].data(), own.data(), own.size() * sizeof(float));
    all.sync();
    const std::size_t begin = own.size() * rank / ranks;
    const std::size_t end = own.size() * (rank + 1) / ranks;
    for (std::size_t other = 0; other < ranks; ++other) {
        if (other != rank)
            device::accumulate(segments[other].data() + begin, segments[rank].data() + begin,
                               static_cast<std::int64_t>(end - begin));
    }
    all.sync();
    for (std::size_t other = 0; other < ranks; ++other) {
        const std::size_t from = own.size() * other / ranks;
        const std::size_t to = own.size() * (other + 1) / ranks;
        std::memcpy(own.data() + from, segments[other].data() + from, (to - from) * sizeof(float));
    }
    all.sync();
}

} // namespace

double sharedReductionRate(int ranks, Bytes bytes)
{
    const auto floats = static_cast<std::size_t>(std::clamp<std::int64_t>(bytes.value() / 4, 1024, kMostFloats));
    std::vector<std::vector<float>> segments(static_cast<std::size_t>(ranks));
    std::vector<double> seconds;
    RankThreads::run(ranks, 1, [&](int rank, RankThreads &all) {
        const auto index = static_cast<std::size_t>(rank);
        segments[index].assign(floats, 0.0F);
        std::vector<float> own(floats, 1.0F);
        all.sync();
        for (int i = 0; i <= kRepetitions; ++i) {
            const std::int64_t begin = runtime::monotonicNanoseconds();
            reduceOnce(all, index, own, segments);
            if (rank == 0 && i > 0) // the first one touches the memory
                seconds.push_back(static_cast<double>(runtime::monotonicNanoseconds() - begin) * 1e-9);
        }
    });
    std::ranges::sort(seconds);
    const double moved = 2.0 * (ranks - 1) / ranks * static_cast<double>(floats * sizeof(float));
    return moved / std::max(seconds[seconds.size() / 2], 1e-9);
}

} // namespace planloom::profiler
