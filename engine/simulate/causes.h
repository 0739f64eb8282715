// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace planloom::simulate {

/// What each task of a Program waits for, by the numbers that tasks have in its traces. About 4 bytes a task, 4 a
/// dependency and 4 a member of a group; 4 more a dependency of a Program that spans steps. A value; const members from
/// any thread.
class Causes {
public:
    /// A task, and how many steps before the other it runs.
    struct Link {
        std::int32_t task = -1;
        std::int32_t steps = 0;
        friend bool operator==(const Link &, const Link &) = default;
    };

    Causes() = default;
    /// Cost: O(tasks + dependencies).
    explicit Causes(const program::Program &program);

    [[nodiscard]] std::size_t tasks() const { return m_first.empty() ? 0 : m_first.size() - 1; }
    [[nodiscard]] bool empty() const { return m_first.empty(); }
    [[nodiscard]] bool spansSteps() const { return !m_stepsBack.empty(); }
    [[nodiscard]] bool has(std::int32_t task) const { return task >= 0 && static_cast<std::size_t>(task) < tasks(); }

    /// The tasks that must have ended before @p task starts.
    [[nodiscard]] std::vector<Link> of(std::int32_t task) const
    {
        std::vector<Link> causes;
        each(task, [&causes](std::int32_t cause, std::int32_t stepsBack) { causes.push_back({cause, stepsBack}); });
        return causes;
    }
    /// Calls @p take(cause, stepsBack) for them, in the Program's order.
    template <class Take>
    void each(std::int32_t task, Take take) const
    {
        if (!has(task))
            return;
        const auto last = static_cast<std::size_t>(m_first[static_cast<std::size_t>(task) + 1]);
        for (auto i = static_cast<std::size_t>(m_first[static_cast<std::size_t>(task)]); i < last; ++i)
            take(m_causes[i], m_stepsBack.empty() ? 0 : m_stepsBack[i]);
    }
    /// A task that waits for `cause`, `steps` steps later.
    struct Effect {
        std::int32_t cause = -1;
        std::int32_t task = -1;
        std::int32_t steps = 0;
    };
    /// What waits for one of @p tasks, ascending by task. Cost: O(dependencies log tasks).
    [[nodiscard]] std::vector<Effect> effectsOf(std::span<const std::int32_t> tasks) const;
    /// The tasks that start together with one of group @p group (trace::TaskInfo::group), itself included; none for -1.
    [[nodiscard]] std::span<const std::int32_t> members(std::int32_t group) const;

private:
    std::vector<std::int32_t> m_first;       ///< per task: its first of m_causes; +1 entry
    std::vector<std::int32_t> m_causes;      ///< tasks
    std::vector<std::int32_t> m_stepsBack;   ///< of these; empty: all 0
    std::vector<std::int32_t> m_firstMember; ///< per group; +1 entry
    std::vector<std::int32_t> m_members;
};

} // namespace planloom::simulate
