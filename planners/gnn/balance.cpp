// SPDX-License-Identifier: Apache-2.0
#include "planners/gnn/balance.h"

#include "planners/gnn/load.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace planloom::planners::gnn {
namespace {

class Descent {
public:
    Descent(const Job &job, const Placement &start, Progress &progress, std::int64_t mostTries)
        : m_job(job),
          m_progress(progress),
          m_mostTries(mostTries),
          m_load(job),
          m_room(job, start),
          m_movable(movableRoles(job)),
          m_machineOf(start.size(), -1)
    {
        for (std::size_t role = 0; role < start.size(); ++role)
            put(static_cast<std::int32_t>(role), start[role]);
    }

    Balanced run()
    {
        m_found.busiestBefore = m_load.busiest();
        m_scale = m_found.busiestBefore;
        while (m_scale > 0) {
            const auto best = bestOfBusiest();
            if (!best)
                break;
            adopt(*best);
            m_found.changes.push_back(*best);
        }
        m_found.busiest = m_load.busiest();
        return std::move(m_found);
    }

private:
    [[nodiscard]] std::int32_t at(std::int32_t role) const { return m_machineOf[static_cast<std::size_t>(role)]; }

    void put(std::int32_t role, std::int32_t machine)
    {
        m_load.add(role, machine, m_machineOf);
        m_machineOf[static_cast<std::size_t>(role)] = machine;
    }
    void take(std::int32_t role)
    {
        const std::int32_t machine = std::exchange(m_machineOf[static_cast<std::size_t>(role)], -1);
        m_load.add(role, machine, m_machineOf, -1);
    }

    /// The load alone; whether it fits has been asked before.
    void change(const Proposal &proposal)
    {
        const std::int32_t machine = at(proposal.role);
        take(proposal.role);
        if (!proposal.swap)
            return put(proposal.role, proposal.machine);
        const std::int32_t other = at(proposal.other);
        take(proposal.other);
        put(proposal.role, other);
        put(proposal.other, machine);
    }

    void adopt(const Proposal &proposal)
    {
        const std::int32_t machine = at(proposal.role);
        const std::int32_t target = proposal.swap ? at(proposal.other) : proposal.machine;
        m_room.give(proposal.role, machine);
        if (proposal.swap) {
            m_room.give(proposal.other, target);
            m_room.take(proposal.other, machine);
        }
        m_room.take(proposal.role, target);
        change(proposal);
    }

    [[nodiscard]] bool fits(const Proposal &proposal)
    {
        const std::int32_t machine = at(proposal.role);
        const std::int32_t target = proposal.swap ? at(proposal.other) : proposal.machine;
        if (target == machine)
            return false;
        if (!proposal.swap)
            return m_room.fits(proposal.role, target);
        m_room.give(proposal.role, machine);
        m_room.give(proposal.other, target);
        const bool both = m_room.fits(proposal.role, target) && m_room.fits(proposal.other, machine);
        m_room.take(proposal.role, machine);
        m_room.take(proposal.other, target);
        return both;
    }

    /// The potential after @p proposal.
    double potentialAfter(const Proposal &proposal)
    {
        const std::int32_t before = at(proposal.role);
        change(proposal);
        const double potential = m_load.potential(m_scale);
        Proposal back = proposal;
        back.machine = before;
        change(back);
        return potential;
    }

    bool stopped()
    {
        constexpr std::int64_t kAsk = 1024; // tries between two looks at the progress
        if (++m_found.tried % kAsk == 0 && m_progress.stopped())
            m_found.cancelled = true;
        return m_found.cancelled || m_found.tried >= m_mostTries;
    }

    /// The best change of a role on the busiest direction where one helps; nothing if none does anywhere.
    std::optional<Proposal> bestOfBusiest()
    {
        m_order.resize(m_load.directions());
        std::iota(m_order.begin(), m_order.end(), std::size_t{0});
        std::stable_sort(m_order.begin(), m_order.end(),
                         [&](std::size_t a, std::size_t b) { return m_load.seconds(a) > m_load.seconds(b); });
        for (const std::size_t direction : m_order) {
            if (m_load.seconds(direction) <= 0)
                break;
            const auto best = bestOf(direction);
            if (best || stopped())
                return best;
        }
        return std::nullopt;
    }

    std::optional<Proposal> bestOf(std::size_t direction)
    {
        const auto machine = static_cast<std::int32_t>(direction / 2);
        constexpr double kGain = 1 - 1e-9; // what is rounding is no gain
        double least = m_load.potential(m_scale) * kGain;
        std::optional<Proposal> best;
        const auto offer = [&](const Proposal &proposal) {
            if (!fits(proposal))
                return;
            const double potential = potentialAfter(proposal);
            if (potential < least) {
                least = potential;
                best = proposal;
            }
        };
        for (const std::int32_t role : m_movable) {
            if (at(role) != machine && !meets(role, machine))
                continue;
            for (std::int32_t target = 0; target < static_cast<std::int32_t>(m_job.machines.size()); ++target) {
                if (stopped())
                    return best;
                offer({false, role, target, role});
            }
            if (at(role) != machine)
                continue;
            for (const std::int32_t other : m_movable) {
                if (stopped())
                    return best;
                if (other != role)
                    offer({true, role, 0, other});
            }
        }
        return best;
    }

    /// Whether most of what @p role sends or receives goes to or comes from @p machine.
    [[nodiscard]] bool meets(std::int32_t role, std::int32_t machine) const
    {
        double there = 0;
        double all = 0;
        for (const Load::Peer &peer : m_load.peers(role)) {
            all += peer.bytes;
            if (at(peer.role) == machine)
                there += peer.bytes;
        }
        return there > all / 4;
    }

    const Job &m_job;
    Progress &m_progress;
    std::int64_t m_mostTries;
    Load m_load;
    Room m_room;
    std::vector<std::int32_t> m_movable;
    Placement m_machineOf;
    std::vector<std::size_t> m_order;
    double m_scale = 0;
    Balanced m_found;
};

} // namespace

Balanced balance(const Job &job, const Placement &start, Progress &progress, std::int64_t mostTries)
{
    return Descent(job, start, progress, mostTries).run();
}

} // namespace planloom::planners::gnn
