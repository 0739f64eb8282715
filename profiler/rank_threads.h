// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <barrier>
#include <functional>

namespace planloom::profiler {

/// Threads that stand for the workers of one machine: each pinned to its share of the cores, with an OpenMP team of its
/// own, all doing the same at the same time.
class RankThreads {
public:
    /// The work of a rank; every rank must call sync() equally often.
    using Work = std::function<void(int rank, RankThreads &all)>;

    /// Runs @p work on @p ranks threads and waits for all. @p threads: OpenMP threads of each, 0: its share of the
    /// cores.
    static void run(int ranks, int threads, const Work &work);

    /// Waits until all ranks are here. Returns false, on all of them alike, once one has called leave() before.
    bool sync();
    /// Asks all to end at the next sync().
    void leave() { m_leaving = true; }
    [[nodiscard]] int ranks() const { return m_ranks; }

private:
    explicit RankThreads(int ranks) : m_ranks(ranks), m_barrier(ranks, Agree{this}) {}
    struct Agree {
        RankThreads *all;
        void operator()() noexcept { all->m_agreed = !all->m_leaving; }
    };
    int m_ranks;
    std::atomic<bool> m_leaving{false};
    std::atomic<bool> m_agreed{true};
    std::barrier<Agree> m_barrier;
};

} // namespace planloom::profiler
