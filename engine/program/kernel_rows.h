// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"

#include <array>
#include <cstdint>
#include <vector>

namespace planloom::program {

/// What is read of a device now and then. Each is a lane of its own, with levels (trace::Gauge).
enum class Reading : std::uint8_t { SmClock, MemoryClock, Power, Temperature };
/// A row of the table of readings.
struct ReadingInfo {
    const char *name; ///< of the lane
    const char *unit;
    std::int32_t step; ///< between levels
    std::int32_t full; ///< scale
    [[nodiscard]] std::int32_t levels() const { return full / step + 1; }
};
/// By Reading.
inline constexpr std::array<ReadingInfo, 4> kReadings{{{"SM clock", "MHz", 15, 3000},
                                                       {"memory clock", "MHz", 50, 15'000},
                                                       {"power", "W", 10, 1500},
                                                       {"temperature", "°C", 1, 120}}};

/// Rows of a trace for what a device ran of a program's tasks, behind those of traceTables(): for each task one for
/// commands of no operator (sums of gradients, updates, copies for communication), then one for each operator that it
/// runs, in its order, then one for commands that ran as a graph; and behind all of these the levels of what is read of
/// it. 4 bytes a task.
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
    [[nodiscard]] std::int32_t lane(Reading reading) const { return m_lane + 2 + static_cast<std::int32_t>(reading); }
    /// Row of the trace's tasks: the level next to @p value.
    [[nodiscard]] std::int32_t level(Reading reading, std::int32_t value) const;

private:
    std::vector<std::int32_t> m_first; ///< ascending
    std::int32_t m_levels = 0;         ///< the first
    std::int32_t m_end = 0;
    std::int32_t m_lane;
};

/// Adds these rows to the program's @p tables, made by traceTables(). They are called like "s0.F.m1/h.0.attn.qkv" and
/// have the kind and stage of their task. @p program: with operators. Cost: O(tasks * operators of each).
void addKernelRows(const Program &program, trace::Tables &tables);

} // namespace planloom::program
