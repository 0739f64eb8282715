// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/affinity.h"

#include "engine/base/log.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace planloom::runtime {

int pinToShare(int localRank, int localSize)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 1;
    std::vector<int> processors;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &allowed))
            processors.push_back(cpu);
    }
    const int count = static_cast<int>(processors.size());
    int begin = localRank % count;
    int end = begin + 1;
    if (count >= localSize) {
        begin = count * localRank / localSize;
        end = count * (localRank + 1) / localSize;
    }
    cpu_set_t share;
    CPU_ZERO(&share);
    for (int i = begin; i < end; ++i)
        CPU_SET(processors[static_cast<std::size_t>(i)], &share);
    if (sched_setaffinity(0, sizeof share, &share) != 0)
        log(LogLevel::Warning, std::string("a worker could not be pinned to its processors (") + std::strerror(errno) + "); times will vary more");
    return end - begin;
}

} // namespace planloom::runtime
