// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/waits.h"

#include <algorithm>

namespace planloom::trace {
namespace {

std::uint64_t keyOf(std::int32_t step, std::int32_t group)
{
    return std::uint64_t{static_cast<std::uint32_t>(step)} << 32 | static_cast<std::uint32_t>(group);
}

std::int32_t groupOf(const Tables &tables, const Record &record)
{
    const TaskInfo *task = tables.task(record.task);
    return task ? task->group : -1;
}

} // namespace

void Waits::append(const Tables &tables, std::span<const Record> records)
{
    for (const Record &record : records) {
        const std::int32_t group = groupOf(tables, record);
        if (group < 0)
            continue;
        const auto [last, isNew] = m_lastStart.try_emplace(keyOf(record.step, group), record.start);
        if (!isNew)
            last->second = std::max(last->second, record.start);
    }
}

std::int64_t Waits::of(const Tables &tables, const Record &record) const
{
    const std::int32_t group = groupOf(tables, record);
    if (group < 0)
        return 0;
    const auto last = m_lastStart.find(keyOf(record.step, group));
    return last == m_lastStart.end() ? 0 : std::clamp<std::int64_t>(last->second - record.start, 0, record.duration);
}

std::vector<std::int64_t> waits(const Trace &trace)
{
    Waits all;
    all.append(trace, trace.records);
    std::vector<std::int64_t> each;
    each.reserve(trace.records.size());
    for (const Record &record : trace.records)
        each.push_back(all.of(trace, record));
    return each;
}

} // namespace planloom::trace
