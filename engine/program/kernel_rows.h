// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"

#include <cstdint>
#include <vector>

namespace planloom::program {

/// Rows of a trace for what a device ran of a program's tasks, behind those of traceTables(): for each task one for
/// commands of no operator (sums of gradients, updates, copies for communication), then one for each operator that it
/// runs, in its order, then one for commands that ran as a graph. 4 bytes a task.
class KernelRows {
public:
    /// Rows, the tasks' own included, with which traces may have these: about 70 bytes each, of the 64 MiB of a
    /// message.
    static constexpr std::size_t kMost = std::size_t{1} << 19;

    explicit KernelRows(const Program &program);

    /// Row of the trace's tasks.
    [[nodiscard]] std::int32_t first(TaskId task) const { return m_first[task.index()]; }
    /// That of graphs, of the task whose first() is @p first.
    [[nodiscard]] std::int32_t graph(std::int32_t first) const;
    /// Of the trace's tasks: all of them.
    [[nodiscard]] std::size_t rows() const { return static_cast<std::size_t>(m_end); }
    /// Rows of the trace's lanes.
    [[nodiscard]] std::int32_t kernels() const { return m_lane; }
    [[nodiscard]] std::int32_t copies() const { return m_lane + 1; }

private:
    std::vector<std::int32_t> m_first; ///< ascending
    std::int32_t m_end = 0;
    std::int32_t m_lane;
};

/// Adds these rows to the program's @p tables, made by traceTables(). They are called like "s0.F.m1/h.0.attn.qkv" and
/// have the kind and stage of their task. @p program: with operators. Cost: O(tasks * operators of each).
void addKernelRows(const Program &program, trace::Tables &tables);

} // namespace planloom::program
