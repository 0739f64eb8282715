// SPDX-License-Identifier: Apache-2.0
#include "planners/gnn/exhaustive.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace planloom::planners::gnn {
namespace {

struct Enumeration {
    const Job &job;
    const std::function<bool(const Placement &)> &visit;
    std::vector<std::int32_t> movable;
    Placement machineOf;
    Room room;

    /// Places movable[i] and all behind it. False once visit has had enough.
    bool from(std::size_t i)
    {
        if (i == movable.size())
            return visit(machineOf);
        const std::int32_t role = movable[i];
        for (std::int32_t machine = 0; machine < static_cast<std::int32_t>(job.machines.size()); ++machine) {
            if (!room.fits(role, machine))
                continue;
            room.take(role, machine);
            machineOf[static_cast<std::size_t>(role)] = machine;
            const bool on = from(i + 1);
            room.give(role, machine);
            if (!on)
                return false;
        }
        return true;
    }
};

} // namespace

void eachFeasible(const Job &job, const std::function<bool(const Placement &)> &visit)
{
    Enumeration enumeration{job, visit, movableRoles(job), Placement(job.roles.size(), -1), Room(job)};
    for (std::int32_t g = 0; g < job.count(planloom::gnn::RoleKind::GraphStore); ++g) {
        const std::int32_t machine = job.roles[static_cast<std::size_t>(g)].machine;
        if (!enumeration.room.fits(g, machine))
            return;
        enumeration.room.take(g, machine);
        enumeration.machineOf[static_cast<std::size_t>(g)] = machine;
    }
    enumeration.from(0);
}

Result<Exhaustive> exhaustivePlacement(const Job &job, TransferPolicy policy, std::int64_t most, Progress &progress)
{
    Evaluation evaluation(job, policy);
    Exhaustive found;
    std::vector<double> seconds;
    bool stopped = false;
    bool tooMany = false;
    eachFeasible(job, [&](const Placement &machineOf) {
        stopped = progress.stopped();
        tooMany = static_cast<std::int64_t>(seconds.size()) == most;
        if (stopped || tooMany)
            return false;
        seconds.push_back(evaluation.seconds(machineOf));
        if (seconds.size() == 1 || seconds.back() < found.bestSeconds) {
            found.bestSeconds = seconds.back();
            found.best = machineOf;
        }
        return true;
    });
    if (stopped)
        return cancelled();
    if (tooMany)
        return unsupported(
            fmt::format("there are more than {} feasible placements to try; use the search, or raise the "
                        "limit",
                        most));
    if (seconds.empty())
        return infeasible("no placement is feasible; give the machines more, or take fewer roles");
    std::sort(seconds.begin(), seconds.end());
    found.feasible = static_cast<std::int64_t>(seconds.size());
    found.medianSeconds = seconds[seconds.size() / 2];
    found.worstSeconds = seconds.back();
    return found;
}

} // namespace planloom::planners::gnn
