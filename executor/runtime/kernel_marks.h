// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/kernel_rows.h"
#include "executor/device/plugin/activity_abi.h"

#include <atomic>
#include <cstdint>

namespace planloom::runtime {

/// Says to which task, and which of its operators, the commands belong that the rank's thread gives to its GPU. A mark
/// is a step and a row of the trace's tasks (program::KernelRows); 0: none. Thread contract: one thread, but for
/// step().
class KernelMarks {
public:
    /// Borrowed.
    KernelMarks(const PlanloomActivityTable &table, PlanloomActivity &activity, const program::KernelRows &rows)
        : m_table(table),
          m_activity(activity),
          m_rows(rows)
    {
    }

    /// Of commands of @p task that belong to no operator.
    [[nodiscard]] std::uint64_t of(TaskId task, std::int64_t step) const
    {
        return static_cast<std::uint64_t>(step) << 32U | static_cast<std::uint32_t>(m_rows.first(task));
    }
    [[nodiscard]] static std::int32_t rowOf(std::uint64_t mark) { return static_cast<std::int32_t>(mark); }
    [[nodiscard]] static std::int32_t stepOf(std::uint64_t mark) { return static_cast<std::int32_t>(mark >> 32U); }

    /// Of the task at hand; 0 outside of tasks.
    [[nodiscard]] std::uint64_t current() const { return m_current; }
    void set(std::uint64_t mark)
    {
        m_current = mark;
        if (mark != 0)
            m_step.store(stepOf(mark), std::memory_order_relaxed);
        m_table.mark(&m_activity, mark);
    }
    /// From here on the task runs the operator with this @p number in it; until set().
    void atOperator(std::int32_t number)
    {
        m_table.mark(&m_activity, m_current + 1 + static_cast<std::uint64_t>(number));
    }
    /// Of the last mark. Any thread.
    [[nodiscard]] std::int32_t step() const { return m_step.load(std::memory_order_relaxed); }
    void afterOperators() { m_table.mark(&m_activity, m_current); }

private:
    const PlanloomActivityTable &m_table;
    PlanloomActivity &m_activity;
    const program::KernelRows &m_rows;
    std::uint64_t m_current = 0;
    std::atomic<std::int32_t> m_step{0};
};

/// A mark for as long as it lives; then the one before. Without marks (nullptr) nothing.
class MarkScope {
public:
    MarkScope(KernelMarks *marks, std::uint64_t mark)
        : m_marks(marks),
          m_before(marks != nullptr ? marks->current() : 0)
    {
        if (m_marks != nullptr)
            m_marks->set(mark);
    }
    ~MarkScope()
    {
        if (m_marks != nullptr)
            m_marks->set(m_before);
    }
    MarkScope(const MarkScope &) = delete;
    MarkScope &operator=(const MarkScope &) = delete;

private:
    KernelMarks *m_marks;
    std::uint64_t m_before;
};

} // namespace planloom::runtime
