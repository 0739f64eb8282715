// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/copy_stalls.h"

#include <algorithm>

namespace planloom::simulate {
namespace {

constexpr std::int64_t kNotRecorded = -1;

/// When each task ended.
std::vector<std::int64_t> endsOf(const program::Program &program, std::span<const trace::Record> records)
{
    std::vector<std::int64_t> ends(program.tasks.size(), kNotRecorded);
    for (const trace::Record &record : records)
        if (record.task >= 0 && static_cast<std::size_t>(record.task) < ends.size())
            ends[static_cast<std::size_t>(record.task)] = record.start + record.duration;
    return ends;
}

} // namespace

std::vector<CopyStall> copyStalls(const program::Program &program, std::span<const trace::Record> records)
{
    const std::vector<std::int64_t> ends = endsOf(program, records);
    std::vector<std::int64_t> free(program.ranks.size(), kNotRecorded); // when the rank's compute lane ended its last
    std::vector<CopyStall> stalls;
    for (const trace::Record &record : records) {
        if (record.task < 0 || static_cast<std::size_t>(record.task) >= program.tasks.size()
            || record.lane != static_cast<std::int32_t>(program::Lane::Compute))
            continue;
        const auto &task = program.tasks[static_cast<std::size_t>(record.task)];
        std::int64_t &idleFrom = free[task.rank.index()];
        CopyStall stall{task.rank, {}, idleFrom == kNotRecorded ? record.start : idleFrom, 0};
        idleFrom = std::max(idleFrom, record.start + record.duration);
        for (const program::Dependency &awaited : program.dependenciesOf(task)) {
            const std::int64_t end = awaited.stepsBack == 0 ? ends[awaited.task.index()] : kNotRecorded;
            if (program.task(awaited.task).as<program::Swap>() == nullptr)
                stall.begin = std::max(stall.begin, end);
            else if (end > stall.end)
                stall = {stall.rank, awaited.task, stall.begin, end};
        }
        stall.end = std::min(stall.end, record.start);
        if (stall.end > stall.begin)
            stalls.push_back(stall);
    }
    return stalls;
}

} // namespace planloom::simulate
