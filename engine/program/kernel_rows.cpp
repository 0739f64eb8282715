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
    auto next = static_cast<std::int32_t>(program.tasks.size());
    m_first.reserve(program.tasks.size());
    for (const Task &task : program.tasks) {
        m_first.push_back(next);
        next += operatorsOf(task) + 2;
    }
    m_end = next;
}

std::int32_t KernelRows::graph(std::int32_t first) const
{
    const auto after = std::upper_bound(m_first.begin(), m_first.end(), first);
    return (after == m_first.end() ? m_end : *after) - 1;
}

void addKernelRows(const Program &program, trace::Tables &tables)
{
    tables.lanes.push_back({"kernels", trace::Work::Device, kAtOnce});
    tables.lanes.push_back({"copies", trace::Work::Device, kAtOnce});
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
}

} // namespace planloom::program
