// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/shared_cores.h"

#include <algorithm>

namespace planloom::simulate {

double SharedCores::Core::least() const
{
    double least = std::numeric_limits<double>::infinity();
    for (const Running &unit : running)
        least = std::min(least, unit.left);
    return least;
}

double SharedCores::Core::end() const
{
    return running.empty() ? std::numeric_limits<double>::infinity()
                           : since + least() * static_cast<double>(running.size());
}

SharedCores::SharedCores(const program::Program &program)
{
    std::int32_t cores = 0;
    for (const program::Rank &rank : program.ranks)
        cores = std::max(cores, rank.core + 1);
    m_cores.resize(static_cast<std::size_t>(cores));
    for (std::size_t r = 0; cores > 0 && r < program.ranks.size(); ++r)
        m_coreOf.push_back(program.ranks[r].core);
}

std::int32_t SharedCores::coreOf(const program::Task &task) const
{
    const bool computes = task.lane == program::Lane::Compute && !task.group.valid();
    return computes && !m_coreOf.empty() ? m_coreOf[task.rank.index()] : -1;
}

void SharedCores::start(std::int32_t core, Unit unit, double seconds, double now)
{
    Core &on = m_cores[static_cast<std::size_t>(core)];
    for (Running &other : on.running)
        other.left = std::max(0.0, other.left - (now - on.since) / static_cast<double>(on.running.size()));
    on.since = now;
    on.running.push_back({unit, seconds});
    findNextEnd();
}

std::vector<SharedCores::Unit> SharedCores::takeEnded()
{
    std::vector<Unit> ended;
    for (Core &core : m_cores) {
        if (core.running.empty() || core.end() != m_nextEnd)
            continue;
        const double least = core.least();
        for (Running &unit : core.running) {
            unit.left -= least;
            if (unit.left <= 0)
                ended.push_back(unit.unit);
        }
        std::erase_if(core.running, [](const Running &unit) { return unit.left <= 0; });
        core.since = m_nextEnd;
    }
    std::sort(ended.begin(), ended.end());
    findNextEnd();
    return ended;
}

void SharedCores::clear()
{
    for (Core &core : m_cores)
        core = {};
    findNextEnd();
}

void SharedCores::findNextEnd()
{
    m_nextEnd = std::numeric_limits<double>::infinity();
    for (const Core &core : m_cores)
        m_nextEnd = std::min(m_nextEnd, core.end());
}

} // namespace planloom::simulate
