// SPDX-License-Identifier: Apache-2.0
#include "planners/gnn/exhaustive.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace planloom::planners::gnn {
namespace {

struct Enumeration {
    const Job &job;
    const std::function<bool(const Placement &)> &visit;
    const std::function<bool()> &stopped;
    std::vector<std::int32_t> movable;
    Placement machineOf;
    Room room;
    std::int64_t puts = 0;

    /// Places movable[i] and all behind it. False once visit has had enough, or if the user stops it.
    bool from(std::size_t i)
    {
        constexpr std::int64_t kAsk = 1024;
        if (i == movable.size())
            return visit(machineOf);
        if (++puts % kAsk == 0 && stopped && stopped())
            return false;
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

void eachFeasible(const Job &job, const std::function<bool(const Placement &)> &visit,
                  const std::function<bool()> &stopped)
{
    Enumeration enumeration{job, visit, stopped, movableRoles(job), Placement(job.roles.size(), -1), Room(job)};
    for (std::int32_t g = 0; g < job.count(planloom::gnn::RoleKind::GraphStore); ++g) {
        const std::int32_t machine = job.roles[static_cast<std::size_t>(g)].machine;
        if (!enumeration.room.fits(g, machine))
            return;
        enumeration.room.take(g, machine);
        enumeration.machineOf[static_cast<std::size_t>(g)] = machine;
    }
    enumeration.from(0);
}

Result<std::int64_t> countFeasible(const Job &job, std::int64_t most, const Progress &progress)
{
    std::int64_t count = 0;
    bool stopped = false;
    eachFeasible(
        job, [&](const Placement &) { return ++count <= most; }, [&] { return stopped = progress.stopped(); });
    return stopped ? Result<std::int64_t>(cancelled()) : Result<std::int64_t>(count);
}

Result<Exhaustive> exhaustivePlacement(const Job &job, TransferPolicy policy, std::int64_t most, Progress &progress)
{
    const auto feasible = countFeasible(job, most, progress);
    if (!feasible)
        return feasible.error();
    if (*feasible > most)
        return unsupported(fmt::format("there are more than {} feasible placements of {} roles on {} machines, each of "
                                       "which takes a schedule to try; use search explore",
                                       most, movableRoles(job).size(), job.machines.size()));
    if (*feasible == 0)
        return infeasible("no placement is feasible; give the machines more, or take fewer roles");
    Evaluation evaluation(job, policy);
    Exhaustive found;
    found.feasible = *feasible;
    std::vector<double> seconds;
    using Timed = std::pair<double, Placement>;
    constexpr std::size_t kLeading = 16; // the simulator's order of placements differs from this one by a few places
    std::vector<Timed> leading;
    const auto stop = [&] { return progress.stopped(); };
    const auto visit = [&](const Placement &machineOf) {
        progress.report(static_cast<double>(seconds.size()) / static_cast<double>(found.feasible),
                        "trying every placement");
        if (stop())
            return false;
        seconds.push_back(evaluation.seconds(machineOf));
        const auto behind = std::ranges::upper_bound(leading, seconds.back(), {}, &Timed::first);
        if (behind == leading.end() && leading.size() == kLeading)
            return true;
        leading.insert(behind, {seconds.back(), machineOf});
        leading.resize(std::min(leading.size(), kLeading));
        return true;
    };
    eachFeasible(job, visit, stop);
    if (seconds.empty())
        return cancelled();
    found.bestSeconds = leading.front().first;
    for (Timed &timed : leading)
        found.leading.push_back(std::move(timed.second));
    found.best = found.leading.front();
    std::sort(seconds.begin(), seconds.end());
    found.tried = static_cast<std::int64_t>(seconds.size());
    found.medianSeconds = seconds[seconds.size() / 2];
    found.worstSeconds = seconds.back();
    return found;
}

} // namespace planloom::planners::gnn
