// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"

#include <cstdint>
#include <vector>

namespace planloom::program {

/// Rows of a trace for what a device ran of a program's tasks, behind those of traceTables(): for each task one for
/// commands of no operator (sums of gradients, updates, copies for communication), then one for each operator that it
/// runs, in its order. 4 bytes a task.
class KernelRows {
public:
    explicit KernelRows(const Program &program);

    /// Row of the trace's tasks.
    [[nodiscard]] std::int32_t first(TaskId task) const { return m_first[task.index()]; }
    /// Rows of the trace's lanes.
    [[nodiscard]] std::int32_t kernels() const { return m_lane; }
    [[nodiscard]] std::int32_t copies() const { return m_lane + 1; }

private:
    std::vector<std::int32_t> m_first;
    std::int32_t m_lane;
};

/// Adds these rows to the program's @p tables, made by traceTables(). They are called like "s0.F.m1/h.0.attn.qkv" and
/// have the kind and stage of their task. @p program: with operators. Cost: O(tasks * operators of each).
void addKernelRows(const Program &program, trace::Tables &tables);

} // namespace planloom::program
