// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/causes.h"

#include <algorithm>

namespace planloom::simulate {

Causes::Causes(const program::Program &program)
{
    m_first.reserve(program.tasks.size() + 1);
    m_causes.reserve(program.dependencies.size());
    if (program.spansSteps())
        m_stepsBack.reserve(program.dependencies.size());
    m_first.push_back(0);
    for (const program::Task &task : program.tasks) {
        for (const program::Dependency &before : program.dependenciesOf(task)) {
            m_causes.push_back(before.task.value);
            if (program.spansSteps())
                m_stepsBack.push_back(before.stepsBack);
        }
        m_first.push_back(static_cast<std::int32_t>(m_causes.size()));
    }
    m_firstMember.reserve(program.groups.size() + 1);
    m_members.reserve(program.groupMembers.size());
    m_firstMember.push_back(0);
    for (std::size_t group = 0; group < program.groups.size(); ++group) {
        for (const TaskId member : program.membersOf(GroupId(static_cast<std::int64_t>(group))))
            m_members.push_back(member.value);
        m_firstMember.push_back(static_cast<std::int32_t>(m_members.size()));
    }
}

std::vector<Causes::Effect> Causes::effectsOf(std::span<const std::int32_t> tasks) const
{
    std::vector<std::int32_t> wanted(tasks.begin(), tasks.end());
    std::ranges::sort(wanted);
    std::vector<Effect> effects;
    if (wanted.empty())
        return effects;
    for (std::size_t i = 0; i < m_causes.size(); ++i) {
        const std::int32_t cause = m_causes[i];
        if (cause < wanted.front() || cause > wanted.back() || !std::ranges::binary_search(wanted, cause))
            continue;
        const auto behind = std::ranges::upper_bound(m_first, static_cast<std::int32_t>(i));
        effects.push_back(
            {cause, static_cast<std::int32_t>(behind - m_first.begin()) - 1, m_stepsBack.empty() ? 0 : m_stepsBack[i]});
    }
    return effects;
}

std::span<const std::int32_t> Causes::members(std::int32_t group) const
{
    if (group < 0 || static_cast<std::size_t>(group) + 1 >= m_firstMember.size())
        return {};
    const auto first = static_cast<std::size_t>(m_firstMember[static_cast<std::size_t>(group)]);
    const auto last = static_cast<std::size_t>(m_firstMember[static_cast<std::size_t>(group) + 1]);
    return std::span(m_members).subspan(first, last - first);
}

} // namespace planloom::simulate
