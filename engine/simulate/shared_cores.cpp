// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/shared_cores.h"

#include <algorithm>

namespace planloom::simulate {

double SharedCores::Core::least() const
{
    double least = kNever;
    for (const Running &unit : running)
        least = std::min(least, unit.left);
    return least;
}

SharedCores::SharedCores(const program::Program &program) : m_program(program)
{
    std::int32_t cores = 0;
    for (const program::Rank &rank : program.ranks)
        cores = std::max(cores, rank.core + 1);
    m_cores.resize(static_cast<std::size_t>(cores));
    m_taken.resize(m_cores.size());
    for (std::size_t r = 0; cores > 0 && r < program.ranks.size(); ++r)
        m_coreOf.push_back(program.ranks[r].core);
}

/// The core that @p task computes on; -1: none that is shared, or the task is no computation of one rank alone.
std::int32_t SharedCores::coreOf(const program::Task &task) const
{
    const bool computes = task.lane == program::Lane::Compute && !task.group.valid();
    return computes ? m_coreOf[task.rank.index()] : -1;
}

std::size_t SharedCores::freeCollective()
{
    const auto free = std::find_if(m_collectives.begin(), m_collectives.end(),
                                   [](const Collective &collective) { return !collective.runs; });
    if (free != m_collectives.end())
        return static_cast<std::size_t>(free - m_collectives.begin());
    m_collectives.emplace_back();
    return m_collectives.size() - 1;
}

/// False if @p collective takes nothing of any core.
bool SharedCores::findNeeds(Collective &collective, std::span<const TaskId> members, double seconds)
{
    collective.needs.clear();
    for (const TaskId id : members) {
        const program::Task &task = m_program.task(id);
        const std::int32_t core = m_coreOf[task.rank.index()];
        if (const double own = m_program.coreSeconds(task).value(); core >= 0 && own > 0 && seconds > 0)
            collective.needs.push_back({core, task.rank, own, own / seconds});
    }
    for (const Need &need : collective.needs)
        m_taken[static_cast<std::size_t>(need.core)] = 0;
    for (const Need &need : collective.needs)
        m_taken[static_cast<std::size_t>(need.core)] += need.part;
    for (Need &need : collective.needs)
        need.part /= std::max(seconds, m_taken[static_cast<std::size_t>(need.core)]);
    return !collective.needs.empty();
}

bool SharedCores::start(Unit unit, std::span<const TaskId> members, double seconds, double now)
{
    if (const std::int32_t core = coreOf(m_program.task(members.front())); core >= 0) {
        const auto on = static_cast<std::size_t>(core);
        change(on, now);
        m_cores[on].running.push_back({unit, m_program.task(members.front()).rank, seconds});
    } else if (m_program.communicationOnCores.secondsPerByte > 0) {
        const std::size_t index = freeCollective();
        Collective &collective = m_collectives[index];
        if (!findNeeds(collective, members, seconds))
            return false;
        collective.unit = unit;
        collective.runs = true;
        collective.seconds = collective.left = seconds;
        collective.since = now;
        collective.stretch = 1;
        collective.end = now + seconds;
        for (const Need &need : collective.needs) {
            change(static_cast<std::size_t>(need.core), now);
            m_cores[static_cast<std::size_t>(need.core)].takers.push_back({need.part, need.besideWork, index});
        }
    } else {
        return false;
    }
    share(now);
    return true;
}

std::vector<SharedCores::Unit> SharedCores::takeEnded()
{
    std::vector<Unit> ended;
    const double now = m_nextEnd;
    for (std::size_t c = 0; c < m_cores.size(); ++c) {
        Core &core = m_cores[c];
        if (core.end != now)
            continue;
        const double least = core.least();
        for (Running &unit : core.running) {
            unit.left -= least;
            if (unit.left <= 0)
                ended.push_back(unit.unit);
        }
        std::erase_if(core.running, [](const Running &unit) { return unit.left <= 0; });
        core.since = now;
        core.changed = true;
        m_changed.push_back(c);
    }
    for (Collective &collective : m_collectives)
        if (collective.runs && collective.end == now) {
            ended.push_back(collective.unit);
            end(collective);
        }
    share(now);
    std::sort(ended.begin(), ended.end());
    return ended;
}

/// Gives back what it has of its cores.
void SharedCores::end(Collective &collective)
{
    const auto index = static_cast<std::size_t>(&collective - m_collectives.data());
    for (const Need &need : collective.needs) {
        change(static_cast<std::size_t>(need.core), collective.end);
        std::erase_if(m_cores[static_cast<std::size_t>(need.core)].takers,
                      [index](const Taker &taker) { return taker.collective == index; });
    }
    collective.runs = false;
    collective.end = kNever;
}

/// What computes on @p core has come as far as it has by @p now; then something begins or ends there.
void SharedCores::change(std::size_t core, double now)
{
    Core &changed = m_cores[core];
    if (changed.changed)
        return;
    for (Running &unit : changed.running)
        unit.left = std::max(0.0, unit.left - (now - changed.since) / changed.stretch);
    changed.since = now;
    changed.changed = true;
    m_changed.push_back(core);
}

/// What every unit gets from now on of the cores that have changed.
void SharedCores::share(double now)
{
    for (const std::size_t core : m_changed)
        shareCore(m_cores[core]);
    for (const std::size_t core : m_changed)
        for (const Taker &taker : m_cores[core].takers)
            shareCollective(m_collectives[taker.collective], now);
    m_changed.clear();
    findNextEnd();
}

/// Takers that need less than their part get what they need, and leave the rest to the others.
void SharedCores::shareCore(Core &core) const
{
    const bool computes = !core.running.empty();
    const double weight = computes ? m_program.communicationOnCores.weight : 1;
    double free = 1;
    double parts = weight * static_cast<double>(core.takers.size()) + static_cast<double>(core.running.size());
    for (Taker &taker : core.takers)
        taker.satisfied = false;
    for (bool again = true; again;) {
        again = false;
        for (Taker &taker : core.takers) {
            const double need = computes ? taker.besideWork : taker.part;
            if (taker.satisfied || need * parts > free * weight)
                continue;
            free -= need;
            parts -= weight;
            taker.satisfied = again = true;
        }
    }
    core.stretch = computes ? parts / free : 1;
    core.perTaker = parts > 0 ? free * weight / parts : 1;
    core.changed = false;
    core.end = core.since + core.least() * core.stretch;
}

double SharedCores::stretchOf(const Collective &collective) const
{
    double stretch = 1;
    bool computes = false;
    for (const Need &need : collective.needs) {
        const Core &core = m_cores[static_cast<std::size_t>(need.core)];
        const double part = core.running.empty() ? need.part : need.besideWork;
        stretch = std::max(stretch, part / core.perTaker);
        computes = computes || std::any_of(core.running.begin(), core.running.end(), [&](const Running &unit) {
                       return unit.rank == need.rank;
                   });
    }
    return computes ? stretch + m_program.communicationOnCores.delay.value() / collective.seconds : stretch;
}

void SharedCores::shareCollective(Collective &collective, double now) const
{
    const double stretch = stretchOf(collective);
    if (stretch == collective.stretch)
        return;
    collective.left = std::max(0.0, collective.left - (now - collective.since) / collective.stretch);
    collective.since = now;
    collective.stretch = stretch;
    collective.end = now + collective.left * stretch;
}

void SharedCores::clear()
{
    for (Core &core : m_cores)
        core = {};
    m_collectives.clear();
    m_changed.clear();
    findNextEnd();
}

void SharedCores::findNextEnd()
{
    m_nextEnd = kNever;
    for (const Core &core : m_cores)
        m_nextEnd = std::min(m_nextEnd, core.end);
    for (const Collective &collective : m_collectives)
        m_nextEnd = std::min(m_nextEnd, collective.end);
}

} // namespace planloom::simulate
