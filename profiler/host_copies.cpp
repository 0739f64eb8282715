// SPDX-License-Identifier: Apache-2.0
#include "profiler/host_copies.h"

#include "executor/runtime/clock.h"
#include "profiler/rank_threads.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <omp.h>
#include <thread>
#include <vector>

namespace planloom::profiler {
namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20; ///< bytes of a copy: an activation of some size
constexpr std::size_t kPieces = 8;                   ///< on each side: more than caches hold
constexpr int kRounds = 5;
constexpr double kRoundSeconds = 0.01;

double secondsNow() { return static_cast<double>(runtime::monotonicNanoseconds()) * 1e-9; }

/// Memory of a rank and its host tier, and a parallel loop that stands for operators.
class Bench {
public:
    Bench()
        : m_device(kPiece * kPieces, std::byte{1}),
          m_host(kPiece * kPieces, std::byte{2}),
          m_numbers(static_cast<std::size_t>(omp_get_max_threads()) * kWide, 1.0F)
    {
    }

    void copyNext()
    {
        std::memcpy(m_host.data() + m_next * kPiece, m_device.data() + m_next * kPiece, kPiece);
        m_next = (m_next + 1) % kPieces;
    }

    /// As operators do: every thread has as much to do, and all wait for the slowest.
    void operate()
    {
        const int threads = static_cast<int>(m_numbers.size() / kWide);
#pragma omp parallel for schedule(static) num_threads(threads)
        for (int thread = 0; thread < threads; ++thread) {
            float *own = m_numbers.data() + static_cast<std::size_t>(thread) * kWide;
            for (int pass = 0; pass < kPasses; ++pass)
                for (std::size_t i = 0; i < kWide; ++i)
                    own[i] = own[i] * 0.5F + 0.5F;
        }
    }

private:
    static constexpr std::size_t kWide = 2048; ///< floats of a thread: they stay in its first cache
    static constexpr int kPasses = 1000;
    std::vector<std::byte> m_device, m_host;
    std::vector<float> m_numbers;
    std::size_t m_next = 0;
};

/// Calls @p work for kRoundSeconds; the seconds that it took once.
template <class Work>
double secondsOf(const Work &work)
{
    const double begin = secondsNow();
    double now = begin;
    int times = 0;
    for (; now - begin < kRoundSeconds; now = secondsNow()) {
        work();
        ++times;
    }
    return (now - begin) / times;
}

HostCopies measureOnce(Bench &bench, RankThreads &all)
{
    HostCopies measured;
    all.sync();
    measured.bytesPerSecond = static_cast<double>(kPiece) / secondsOf([&] { bench.copyNext(); });
    all.sync();
    const double alone = secondsOf([&] { bench.operate(); });
    all.sync();
    std::atomic<bool> ends{false};
    std::atomic<std::int64_t> pieces{0};
    std::jthread copier([&] { // begun by the rank's thread, it runs on the rank's cores
        for (; !ends; ++pieces)
            bench.copyNext();
    });
    const std::int64_t before = pieces;
    const double begin = secondsNow();
    const double beside = secondsOf([&] { bench.operate(); });
    const double times = (secondsNow() - begin) / beside;
    const auto copied = static_cast<double>((pieces - before) * static_cast<std::int64_t>(kPiece));
    ends = true;
    copier.join();
    if (copied > 0)
        measured.load = std::max(0.0, times * (beside - alone) * measured.bytesPerSecond / copied);
    return measured;
}

double medianOf(std::vector<HostCopies> &all, double HostCopies::*figure)
{
    std::ranges::sort(all, {}, figure);
    return all[all.size() / 2].*figure;
}

} // namespace

HostCopies measureHostCopies(int ranks, int threads)
{
    std::vector<HostCopies> rounds;
    RankThreads::run(ranks, threads, [&](int rank, RankThreads &all) {
        Bench bench;
        bench.operate(); // the first one starts the threads
        for (int round = 0; round < kRounds; ++round) {
            const HostCopies measured = measureOnce(bench, all);
            if (rank == 0)
                rounds.push_back(measured);
        }
    });
    HostCopies median;
    median.bytesPerSecond = medianOf(rounds, &HostCopies::bytesPerSecond);
    median.load = medianOf(rounds, &HostCopies::load);
    return median;
}

void addTo(cost::Profile &profile, const HostCopies &copies)
{
    profile.extra["host_copy_bytes_per_second"] = copies.bytesPerSecond;
    profile.extra["host_copy_load"] = copies.load;
}

} // namespace planloom::profiler
