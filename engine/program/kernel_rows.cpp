// SPDX-License-Identifier: Apache-2.0
#include "engine/program/kernel_rows.h"

#include <algorithm>
#include <string>

namespace planloom::program {

namespace {

constexpr std::int32_t kAtOnce = 16; ///< kernels, of several queues

std::int32_t operatorsOf(const Task &task)
{
    const auto *run = task.as<Compute>();
    if (run == nullptr)
        return 0;
    return run->isPooled() ? run->lastCall - run->firstCall : run->lastOp - run->firstOp;
}

const graph::Op &operatorOf(const Program &program, const Task &task, std::int32_t number)
{
    const auto &run = *task.as<Compute>();
    const std::int32_t op = run.isPooled() ? program.pooledCalls[static_cast<std::size_t>(run.firstCall + number)].op
                                           : run.firstOp + number;
    return program.body(task.body).training.graph.ops()[static_cast<std::size_t>(op)];
}

} // namespace

KernelRows::KernelRows(const Program &program) : m_lane(traceLanes(program))
{
    const RoleRows roles(program);
    auto next = roles.first() + static_cast<std::int32_t>(roles.rows().size());
    m_first.reserve(program.tasks.size());
    for (const Task &task : program.tasks) {
        m_first.push_back(next);
        next += operatorsOf(task) + 2;
    }
    m_levels = m_end = next;
    for (const ReadingInfo &reading : kReadings)
        m_end += reading.levels();
}

std::int32_t KernelRows::level(Reading reading, std::int32_t value) const
{
    std::int32_t first = m_levels;
    for (std::size_t before = 0; before < static_cast<std::size_t>(reading); ++before)
        first += kReadings[before].levels();
    const ReadingInfo &info = kReadings[static_cast<std::size_t>(reading)];
    return first + std::clamp((value + info.step / 2) / info.step, 0, info.levels() - 1);
}

std::int32_t KernelRows::graph(std::int32_t first) const
{
    const auto after = std::upper_bound(m_first.begin(), m_first.end(), first);
    return (after == m_first.end() ? m_levels : *after) - 1;
}

void addKernelRows(const Program &program, trace::Tables &tables)
{
    tables.lanes.push_back({"kernels", trace::Work::Device, kAtOnce});
    tables.lanes.push_back({"copies", trace::Work::Device, kAtOnce});
    for (const ReadingInfo &reading : kReadings)
        tables.lanes.push_back({reading.name, trace::Work::Device, 1});
    for (const Task &task : program.tasks) {
        trace::TaskInfo row{idOf(task) + "/", task.kind(), task.stage.value, -1, -1};
        const std::string prefix = row.id;
        row.id += "other";
        tables.tasks.push_back(row);
        for (std::int32_t i = 0; i < operatorsOf(task); ++i) {
            const graph::Op &op = operatorOf(program, task, i);
            row.id = prefix + op.name;
            tables.tasks.push_back(row);
        }
        row.id = prefix + "graph";
        tables.tasks.push_back(row);
    }
    for (const ReadingInfo &reading : kReadings)
        for (std::int32_t level = 0; level < reading.levels(); ++level)
            tables.tasks.push_back(
                {std::string(reading.name) + "/" + std::to_string(level * reading.step) + " " + reading.unit,
                 trace::Kind::Other, -1, -1, -1});
}

} // namespace planloom::program
