// SPDX-License-Identifier: Apache-2.0
#include "profiler/rank_threads.h"

#include "executor/runtime/affinity.h"

#include <omp.h>
#include <thread>
#include <vector>

namespace planloom::profiler {

void RankThreads::run(int ranks, int threads, const Work &work)
{
    RankThreads all(ranks);
    std::vector<std::jthread> team;
    for (int rank = 0; rank < ranks; ++rank) {
        team.emplace_back([&all, &work, rank, ranks, threads] {
            const int share = runtime::pinToShare(rank, ranks);
            omp_set_num_threads(threads > 0 ? threads : share);
            work(rank, all);
        });
    }
}

bool RankThreads::sync()
{
    m_barrier.arrive_and_wait();
    return m_agreed;
}

} // namespace planloom::profiler
