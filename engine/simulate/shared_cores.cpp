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
    return running.empty() ? std::numeric_limits<double>::infinity() : since + least() * stretch;
}

void SharedCores::Core::pass(double now)
{
    for (Running &unit : running)
        unit.left = std::max(0.0, unit.left - (now - since) / stretch);
    since = now;
}

SharedCores::SharedCores(const program::Program &program) : m_program(program)
{
    std::int32_t cores = 0;
    for (const program::Rank &rank : program.ranks)
        cores = std::max(cores, rank.core + 1);
    m_cores.resize(static_cast<std::size_t>(cores));
    for (std::size_t r = 0; cores > 0 && r < program.ranks.size(); ++r)
        m_coreOf.push_back(program.ranks[r].core);
}

/// The core that @p task computes on; -1: none that is shared, or the task is no computation of one rank alone.
std::int32_t SharedCores::coreOf(const program::Task &task) const
{
    const bool computes = task.lane == program::Lane::Compute && !task.group.valid();
    return computes ? m_coreOf[task.rank.index()] : -1;
}

std::vector<SharedCores::Need> SharedCores::needsOf(std::span<const TaskId> members, double seconds) const
{
    std::vector<Need> needs;
    std::vector<double> all(m_cores.size(), 0); // that the members take of each core
    for (const TaskId id : members) {
        const program::Task &task = m_program.task(id);
        const std::int32_t core = m_coreOf[task.rank.index()];
        if (const double own = m_program.coreSeconds(task).value(); core >= 0 && own > 0 && seconds > 0) {
            needs.push_back({core, own});
            all[static_cast<std::size_t>(core)] += own;
        }
    }
    for (Need &need : needs)
        need.part /= std::max(seconds, all[static_cast<std::size_t>(need.core)]);
    return needs;
}

bool SharedCores::start(Unit unit, std::span<const TaskId> members, double seconds, double now)
{
    if (const std::int32_t core = coreOf(m_program.task(members.front())); core >= 0) {
        Core &on = m_cores[static_cast<std::size_t>(core)];
        on.pass(now);
        on.running.push_back({unit, seconds});
        on.stretch = static_cast<double>(on.running.size());
    } else if (m_program.coreSecondsPerByte > 0) {
        std::vector<Need> needs = needsOf(members, seconds);
        if (needs.empty())
            return false;
        m_communicating.push_back({unit, seconds, now, 1, std::move(needs)});
    } else {
        return false;
    }
    if (!m_communicating.empty())
        share(now);
    findNextEnd();
    return true;
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
        core.stretch = static_cast<double>(core.running.size());
    }
    if (!m_communicating.empty()) {
        std::erase_if(m_communicating, [&](const Communicating &each) {
            const bool ends = each.end() == m_nextEnd;
            if (ends)
                ended.push_back(each.unit);
            return ends;
        });
        share(m_nextEnd);
    }
    std::sort(ended.begin(), ended.end());
    findNextEnd();
    return ended;
}

/// What every unit gets of its cores from now on.
void SharedCores::share(double now)
{
    for (Communicating &each : m_communicating) {
        each.left = std::max(0.0, each.left - (now - each.since) / each.stretch);
        each.since = now;
        each.stretch = 1;
    }
    for (std::size_t c = 0; c < m_cores.size(); ++c) {
        m_cores[c].pass(now);
        const double part = evenPart(c);
        m_cores[c].stretch = 1 / part;
        for (Communicating &each : m_communicating)
            for (const Need &need : each.needs)
                if (static_cast<std::size_t>(need.core) == c)
                    each.stretch = std::max(each.stretch, need.part / part);
    }
}

/// What each that computes on @p core gets of it, and each whose need is larger.
double SharedCores::evenPart(std::size_t core) const
{
    std::vector<double> needs;
    for (const Communicating &each : m_communicating)
        for (const Need &need : each.needs)
            if (static_cast<std::size_t>(need.core) == core)
                needs.push_back(need.part);
    std::sort(needs.begin(), needs.end());
    double left = 1;
    auto takers = static_cast<double>(needs.size() + m_cores[core].running.size());
    for (const double need : needs) {
        if (need * takers > left)
            break;
        left -= need;
        takers -= 1;
    }
    return takers > 0 ? left / takers : 1;
}

void SharedCores::clear()
{
    for (Core &core : m_cores)
        core = {};
    m_communicating.clear();
    findNextEnd();
}

void SharedCores::findNextEnd()
{
    m_nextEnd = std::numeric_limits<double>::infinity();
    for (const Core &core : m_cores)
        m_nextEnd = std::min(m_nextEnd, core.end());
    for (const Communicating &each : m_communicating)
        m_nextEnd = std::min(m_nextEnd, each.end());
}

} // namespace planloom::simulate
