// SPDX-License-Identifier: Apache-2.0
#include "planners/gnn/initial.h"

#include "planners/gnn/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace planloom::planners::gnn {
namespace {

using planloom::gnn::RoleKind;

/// Depth-first over groups, machines in the order of the busiest card.
class FirstFit {
public:
    FirstFit(const Job &job, Progress &progress, std::int64_t mostTries)
        : m_job(job),
          m_progress(progress),
          m_mostTries(mostTries),
          m_load(job),
          m_room(job),
          m_machineOf(job.roles.size(), -1)
    {
        const std::int32_t trainer = job.first(RoleKind::Trainer);
        const std::int32_t server = job.first(RoleKind::ParameterServer);
        for (std::int32_t w = trainer; w < server; ++w) {
            m_groups.push_back({w});
            for (std::int32_t s = job.first(RoleKind::Sampler); s < trainer; ++s) {
                if (job.roles[static_cast<std::size_t>(s)].trainer == w - trainer)
                    m_groups.back().push_back(s);
            }
        }
        for (std::int32_t p = server; p < static_cast<std::int32_t>(job.roles.size()); ++p)
            m_groups.push_back({p});
    }

    Result<InitialPlacement> find()
    {
        for (std::int32_t g = 0; g < m_job.count(RoleKind::GraphStore); ++g) {
            const std::int32_t machine = m_job.roles[static_cast<std::size_t>(g)].machine;
            const std::int32_t lacking = m_room.lacking(g, machine);
            if (lacking >= 0)
                return noRoom(g, lacking, machine);
            put(g, machine);
        }
        if (auto short_ = checkTotals(); !short_)
            return short_.error();
        if (group(0))
            return InitialPlacement{m_machineOf, m_load.busiest(), m_tries};
        if (m_stopped)
            return cancelled();
        if (m_deepest < 0)
            return infeasible(fmt::format("no placement was found in {} tries; take fewer roles", m_tries));
        if (m_tries >= m_mostTries)
            return infeasible(
                fmt::format("no placement was found in {} tries; role {} is the one that fits worst: free "
                            "some {} on a machine",
                            m_tries, m_job.roles[static_cast<std::size_t>(m_worst)].name,
                            m_job.resources[static_cast<std::size_t>(m_worstResource)]));
        return noRoom(m_worst, m_worstResource, -1);
    }

private:
    [[nodiscard]] Error noRoom(std::int32_t role, std::int32_t resource, std::int32_t machine) const
    {
        const planloom::gnn::Role &what = m_job.roles[static_cast<std::size_t>(role)];
        const std::string &of = m_job.resources[static_cast<std::size_t>(resource)];
        const double demand = what.demand[static_cast<std::size_t>(resource)];
        if (machine >= 0)
            return infeasible(fmt::format("{} {} needs {} {} on machine {}, which has {} left; give that machine more, "
                                          "or put the part elsewhere",
                                          name(what.kind), what.name, demand, of,
                                          m_job.machines[static_cast<std::size_t>(machine)].name,
                                          m_room.left(machine, static_cast<std::size_t>(resource))));
        std::vector<std::string> all; // machines may be short of different ones
        for (std::size_t r = 0; r < m_job.resources.size(); ++r)
            if (what.demand[r] > 0)
                all.push_back(fmt::format("{} {}", what.demand[r], m_job.resources[r]));
        if (all.size() > 1)
            return infeasible(
                fmt::format("the roles fit in no way: {} {} needs {}, and beside the other roles no "
                            "machine has all of that; add to a machine what it is short of, or take fewer "
                            "roles",
                            name(what.kind), what.name, fmt::join(all, " and ")));
        return infeasible(
            fmt::format("the roles fit in no way: {} {} needs {} {}, and beside the other roles no machine "
                        "has as much; add {} or take fewer roles",
                        name(what.kind), what.name, demand, of, of));
    }

    /// Says at once which resource is short in all, or which role is larger than any machine.
    [[nodiscard]] Status checkTotals() const
    {
        for (std::size_t resource = 0; resource < m_job.resources.size(); ++resource) {
            double largest = 0;
            double left = 0;
            double needed = 0;
            for (std::size_t machine = 0; machine < m_job.machines.size(); ++machine) {
                largest = std::max(largest, m_room.left(static_cast<std::int32_t>(machine), resource));
                left += m_room.left(static_cast<std::int32_t>(machine), resource);
            }
            for (const planloom::gnn::Role &role : m_job.roles) {
                if (role.kind == RoleKind::GraphStore)
                    continue;
                needed += role.demand[resource];
                if (role.demand[resource] > largest)
                    return infeasible(fmt::format("{} {} needs {} {}, and no machine has more than {} beside its graph "
                                                  "store",
                                                  name(role.kind), role.name, role.demand[resource],
                                                  m_job.resources[resource], largest));
                if (needed > left * (1 + 1e-9))
                    return infeasible(fmt::format("{} {} is one too many: the roles up to it need {} {}, and the "
                                                  "machines have {} beside the graph stores",
                                                  name(role.kind), role.name, needed, m_job.resources[resource], left));
            }
        }
        return {};
    }

    void put(std::int32_t role, std::int32_t machine)
    {
        m_load.add(role, machine, m_machineOf);
        m_room.take(role, machine);
        m_machineOf[static_cast<std::size_t>(role)] = machine;
        ++m_puts;
    }

    void takeBack(std::int32_t role)
    {
        const std::int32_t machine = std::exchange(m_machineOf[static_cast<std::size_t>(role)], -1);
        m_room.give(role, machine);
        m_load.add(role, machine, m_machineOf, -1);
    }

    /// All of @p roles on @p machine, or none.
    bool putAll(const std::vector<std::int32_t> &roles, std::int32_t machine)
    {
        for (std::size_t i = 0; i < roles.size(); ++i) {
            if (!m_room.fits(roles[i], machine)) {
                while (i-- > 0)
                    takeBack(roles[i]);
                return false;
            }
            put(roles[i], machine);
        }
        return true;
    }

    void takeAllBack(const std::vector<std::int32_t> &roles)
    {
        for (auto role = roles.rbegin(); role != roles.rend(); ++role)
            takeBack(*role);
    }

    /// Machines that take @p roles, the one that leaves the busiest card least busy first.
    std::vector<std::int32_t> machinesFor(const std::vector<std::int32_t> &roles)
    {
        std::vector<std::pair<double, std::int32_t>> found;
        for (std::int32_t machine = 0; machine < static_cast<std::int32_t>(m_job.machines.size()); ++machine) {
            if (!putAll(roles, machine))
                continue;
            found.push_back({m_load.busiest(), machine});
            takeAllBack(roles);
        }
        double largest = 0;
        for (const auto &[load, machine] : found)
            largest = std::max(largest, load);
        if (largest > 0) { // loads that differ by rounding only are equal
            constexpr double kDigits = 1e9;
            for (auto &[load, machine] : found)
                load = std::round(load / largest * kDigits);
        }
        std::sort(found.begin(), found.end());
        std::vector<std::int32_t> machines;
        for (const auto &[load, machine] : found)
            machines.push_back(machine);
        return machines;
    }

    bool group(std::size_t number)
    {
        if (number == m_groups.size())
            return true;
        if (outOfTries())
            return false;
        const std::vector<std::int32_t> &roles = m_groups[number];
        for (const std::int32_t machine : machinesFor(roles)) {
            putAll(roles, machine);
            m_tries += static_cast<std::int64_t>(roles.size());
            if (group(number + 1))
                return true;
            takeAllBack(roles);
            if (outOfTries())
                return false;
        }
        return roles.size() > 1 ? member(number, 0) : note(roles.front());
    }

    bool member(std::size_t number, std::size_t i)
    {
        const std::vector<std::int32_t> &roles = m_groups[number];
        if (i == roles.size())
            return !onOneMachine(roles) && group(number + 1);
        for (const std::int32_t machine : machinesFor({roles[i]})) {
            put(roles[i], machine);
            ++m_tries;
            if (member(number, i + 1))
                return true;
            takeBack(roles[i]);
            if (outOfTries())
                return false;
        }
        return note(roles[i]);
    }

    /// Whole groups were tried before their members.
    [[nodiscard]] bool onOneMachine(const std::vector<std::int32_t> &roles) const
    {
        return std::all_of(roles.begin(), roles.end(), [&](std::int32_t role) {
            return m_machineOf[static_cast<std::size_t>(role)] == m_machineOf[static_cast<std::size_t>(roles.front())];
        });
    }

    bool outOfTries()
    {
        constexpr std::int64_t kAsk = 1024; // roles that are put somewhere between two looks at the progress
        if (m_puts >= m_asked + kAsk) {
            m_asked = m_puts;
            m_stopped = m_stopped || m_progress.stopped();
        }
        return m_stopped || m_tries >= m_mostTries;
    }

    /// Keeps the role that fitted nowhere after most others were placed, and of which resource most machines had too
    /// little.
    bool note(std::int32_t role)
    {
        std::vector<int> short_(m_job.resources.size() + 1);
        for (std::int32_t machine = 0; machine < static_cast<std::int32_t>(m_job.machines.size()); ++machine)
            ++short_[static_cast<std::size_t>(m_room.lacking(role, machine) + 1)];
        const auto most = std::max_element(short_.begin() + 1, short_.end());
        const auto placedRoles = std::count_if(m_machineOf.begin(), m_machineOf.end(), [](auto m) { return m >= 0; });
        if (most != short_.end() && *most > 0 && placedRoles > m_deepest) {
            m_deepest = placedRoles;
            m_worst = role;
            m_worstResource = static_cast<std::int32_t>(most - short_.begin()) - 1;
        }
        return false;
    }

    const Job &m_job;
    Progress &m_progress;
    std::int64_t m_mostTries;
    Load m_load;
    Room m_room;
    Placement m_machineOf;
    std::vector<std::vector<std::int32_t>> m_groups;
    std::int64_t m_tries = 0;
    std::int64_t m_puts = 0; ///< with those that only ranked machines
    std::int64_t m_asked = 0;
    bool m_stopped = false;
    std::ptrdiff_t m_deepest = -1;
    std::int32_t m_worst = 0;
    std::int32_t m_worstResource = 0;
};

} // namespace

Result<InitialPlacement> initialPlacement(const Job &job, Progress &progress, std::int64_t mostTries)
{
    return FirstFit(job, progress, mostTries).find();
}

std::optional<Placement> colocatedPlacement(const Job &job)
{
    const std::int32_t stores = job.count(RoleKind::GraphStore);
    Placement machineOf(job.roles.size(), -1);
    Room room(job);
    std::int32_t servers = 0;
    std::int32_t trainers = 0;
    for (std::size_t role = 0; role < job.roles.size(); ++role) {
        const planloom::gnn::Role &what = job.roles[role];
        const auto ofStore = [&](std::int32_t i) { return job.roles[static_cast<std::size_t>(i % stores)].machine; };
        switch (what.kind) {
        case RoleKind::GraphStore: machineOf[role] = what.machine; break;
        case RoleKind::Sampler: machineOf[role] = ofStore(what.trainer); break;
        case RoleKind::Trainer: machineOf[role] = ofStore(trainers++); break;
        case RoleKind::ParameterServer: machineOf[role] = ofStore(servers++); break;
        }
        if (!room.fits(static_cast<std::int32_t>(role), machineOf[role]))
            return std::nullopt;
        room.take(static_cast<std::int32_t>(role), machineOf[role]);
    }
    return machineOf;
}

} // namespace planloom::planners::gnn
