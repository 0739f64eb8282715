// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/affinity.h"

#include "engine/base/backoff.h"
#include "engine/base/log.h"
#include "engine/base/result.h"

#ifdef PLANLOOM_HWLOC
#include <hwloc.h>
#endif
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace planloom::runtime {

namespace {

struct Share {
    std::size_t begin;
    std::size_t end;
};

Share shareOf(std::size_t cores, std::size_t rank, std::size_t ranks)
{
    if (cores < ranks)
        return {rank % cores, rank % cores + 1};
    return {cores * rank / ranks, cores * (rank + 1) / ranks};
}

void warn(const char *what)
{
    log(LogLevel::Warning,
        std::string("a worker could not be pinned to its ") + what + " (" + systemReason() + "); times will vary more");
}

#ifdef PLANLOOM_HWLOC

/// The machine as far as this process may use it.
class Machine {
public:
    Machine()
    {
        // Only processors, caches and memory matter: no search for devices.
        m_good = hwloc_topology_init(&m_topology) == 0
            && hwloc_topology_set_io_types_filter(m_topology, HWLOC_TYPE_FILTER_KEEP_NONE) == 0
            && hwloc_topology_load(m_topology) == 0;
        hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
        m_good = m_good && hwloc_get_cpubind(m_topology, allowed, HWLOC_CPUBIND_THREAD) == 0;
        if (m_good && hwloc_bitmap_intersects(allowed, hwloc_topology_get_topology_cpuset(m_topology)) != 0)
            m_good = hwloc_topology_restrict(m_topology, allowed, 0) == 0;
        hwloc_bitmap_free(allowed);
    }
    ~Machine() { hwloc_topology_destroy(m_topology); }
    Machine(const Machine &) = delete;
    Machine &operator=(const Machine &) = delete;

    [[nodiscard]] std::vector<hwloc_obj_t> cores() const
    {
        std::vector<hwloc_obj_t> found;
        for (const hwloc_obj_type_t type : {HWLOC_OBJ_CORE, HWLOC_OBJ_PU}) {
            for (hwloc_obj_t core = nullptr; m_good && found.size() < kMost
                 && (core = hwloc_get_next_obj_by_type(m_topology, type, core)) != nullptr;)
                found.push_back(core);
            if (!found.empty())
                break; // a virtual machine may know no cores: its processors stand for them
        }
        return found;
    }

    void bind(const std::vector<hwloc_obj_t> &cores, Share share) const
    {
        hwloc_bitmap_t set = hwloc_bitmap_alloc();
        for (std::size_t i = share.begin; i < share.end; ++i)
            hwloc_bitmap_or(set, set, cores[i]->cpuset);
        if (hwloc_set_cpubind(m_topology, set, HWLOC_CPUBIND_THREAD) != 0)
            warn("processors");
        if (hwloc_get_nbobjs_by_type(m_topology, HWLOC_OBJ_NUMANODE) > 1
            && hwloc_set_membind(m_topology, set, HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_THREAD) != 0)
            warn("memory");
        hwloc_bitmap_free(set);
    }

private:
    static constexpr std::size_t kMost = 65536;
    hwloc_topology_t m_topology = nullptr;
    bool m_good = false;
};

int pin(int rank, int ranks)
{
    const Machine machine;
    const std::vector<hwloc_obj_t> cores = machine.cores();
    if (cores.empty())
        return 1;
    const Share share = shareOf(cores.size(), static_cast<std::size_t>(rank), static_cast<std::size_t>(ranks));
    machine.bind(cores, share);
    return static_cast<int>(share.end - share.begin);
}

int countCores() { return static_cast<int>(Machine().cores().size()); }

#else

std::vector<int> allowedProcessors()
{
    cpu_set_t allowed;
    std::vector<int> processors;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return processors;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &allowed))
            processors.push_back(cpu);
    }
    return processors;
}

int countCores() { return static_cast<int>(allowedProcessors().size()); }

int pin(int rank, int ranks)
{
    const std::vector<int> processors = allowedProcessors();
    if (processors.empty())
        return 1;
    const Share share = shareOf(processors.size(), static_cast<std::size_t>(rank), static_cast<std::size_t>(ranks));
    cpu_set_t mine;
    CPU_ZERO(&mine);
    for (std::size_t i = share.begin; i < share.end; ++i)
        CPU_SET(processors[i], &mine);
    if (sched_setaffinity(0, sizeof mine, &mine) != 0)
        warn("processors");
    return static_cast<int>(share.end - share.begin);
}

#endif

} // namespace

int pinToShare(int rank, int ranks)
{
    Backoff::setCoreIsShared(countCores() < ranks);
    return pin(rank, ranks);
}

int pinToShare(int own, std::span<const int> sharers)
{
    return pinToShare(static_cast<int>(std::ranges::lower_bound(sharers, own) - sharers.begin()),
                      static_cast<int>(sharers.size()));
}

int coresHere() { return std::max(countCores(), 1); }

std::string processorsHere()
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return {};
    std::string text;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &allowed) || (cpu > 0 && CPU_ISSET(cpu - 1, &allowed)))
            continue;
        int last = cpu;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &allowed))
            ++last;
        text += (text.empty() ? "" : ",") + std::to_string(cpu) + (last > cpu ? "-" + std::to_string(last) : "");
    }
    return text;
}

} // namespace planloom::runtime
