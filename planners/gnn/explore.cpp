// SPDX-License-Identifier: Apache-2.0
#include "planners/gnn/explore.h"

#include "engine/gnn/random.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace planloom::planners::gnn {
namespace {

std::int32_t choose(double unit, std::int32_t among) { return static_cast<std::int32_t>(unit * among); }

void undo(const Proposal &proposal, std::int32_t before, Placement &machineOf, Room &room)
{
    Proposal back = proposal;
    back.machine = before;
    apply(back, machineOf, room);
}

/// Seconds if no message took any time, and each role had cores of its own.
double secondsWithoutMessages(const Job &job, TransferPolicy policy)
{
    Job free = job;
    double fastest = job.machines.front().port.trainingFactor;
    for (const planloom::gnn::Machine &machine : job.machines)
        fastest = std::min(fastest, machine.port.trainingFactor);
    for (planloom::gnn::Machine &machine : free.machines) {
        machine.port.within = 0;
        machine.port.processor = -1;
        machine.port.trainingFactor = fastest;
    }
    return Evaluation(free, policy).seconds(Placement(job.roles.size(), 0));
}

} // namespace

Proposal proposalOf(const Job &job, std::span<const std::int32_t> movable, std::span<const std::int32_t> machineOf,
                    double kind, double x, double y)
{
    const auto roles = static_cast<std::int32_t>(movable.size());
    const std::int32_t first = choose(x, roles);
    Proposal proposal;
    proposal.swap = kind >= 0.5;
    proposal.role = proposal.other = movable[static_cast<std::size_t>(first)];
    const std::int32_t present = machineOf[static_cast<std::size_t>(proposal.role)];
    if (proposal.swap) {
        const std::int32_t second = choose(y, roles - 1);
        if (roles > 1)
            proposal.other = movable[static_cast<std::size_t>(second + (second >= first ? 1 : 0))];
        return proposal;
    }
    const std::int32_t machine = choose(y, static_cast<std::int32_t>(job.machines.size()) - 1);
    proposal.machine = job.machines.size() > 1 ? machine + (machine >= present ? 1 : 0) : present;
    return proposal;
}

bool apply(const Proposal &proposal, Placement &machineOf, Room &room)
{
    std::int32_t &machine = machineOf[static_cast<std::size_t>(proposal.role)];
    std::int32_t &otherMachine = machineOf[static_cast<std::size_t>(proposal.other)];
    const std::int32_t target = proposal.swap ? otherMachine : proposal.machine;
    if (target == machine)
        return false;
    room.give(proposal.role, machine);
    if (proposal.swap)
        room.give(proposal.other, otherMachine);
    bool fits = room.fits(proposal.role, target);
    if (fits && proposal.swap) { // they do not share a machine, so each is asked by itself
        fits = room.fits(proposal.other, machine);
    }
    if (fits) {
        if (proposal.swap)
            std::swap(machine, otherMachine);
        else
            machine = target;
    }
    room.take(proposal.role, machine);
    if (proposal.swap)
        room.take(proposal.other, otherMachine);
    return fits;
}

double acceptance(double beta, double present, double proposed)
{
    return std::exp(std::min(0.0, beta * (present - proposed)));
}

Exploration explore(const Job &job, const Placement &start, const ExploreOptions &options, Progress &progress)
{
    Evaluation evaluation(job, options.policy);
    const std::vector<std::int32_t> movable = movableRoles(job);
    Placement machineOf = start;
    Room room(job, machineOf);
    Exploration found;
    double present = evaluation.seconds(machineOf);
    found.machineOf = machineOf;
    found.seconds = found.startSeconds = present;
    const double beta = options.beta > 0 ? options.beta : ExploreOptions::kRelativeBeta / std::max(present, 1e-300);
    const double least = secondsWithoutMessages(job, options.policy) * (1 + 1e-12); // no placement takes less
    planloom::gnn::UnitStream units(options.seed);
    found.optimal = found.seconds <= least;
    while (!found.optimal && found.proposals < options.proposals) {
        if (options.patience > 0 && found.proposals - found.bestAt >= options.patience)
            break;
        if (progress.stopped()) {
            found.cancelled = true;
            break;
        }
        constexpr std::int64_t kReportEvery = 16;
        if (found.proposals % kReportEvery == 0)
            progress.report(static_cast<double>(found.proposals) / static_cast<double>(options.proposals),
                            "exploring placements");
        const double kind = units.next();
        const double x = units.next();
        const double y = units.next();
        const double u = units.next();
        ++found.proposals;
        const Proposal proposal = proposalOf(job, movable, machineOf, kind, x, y);
        const std::int32_t before = machineOf[static_cast<std::size_t>(proposal.role)];
        if (!apply(proposal, machineOf, room))
            continue;
        ++found.evaluated;
        const double seconds = evaluation.seconds(machineOf);
        if (u >= acceptance(beta, present, seconds)) {
            undo(proposal, before, machineOf, room);
            continue;
        }
        present = seconds;
        found.accepted.push_back({found.proposals, proposal, seconds});
        if (seconds < found.seconds) {
            found.seconds = seconds;
            found.machineOf = machineOf;
            found.bestAt = found.proposals;
            found.optimal = seconds <= least;
        }
    }
    return found;
}

} // namespace planloom::planners::gnn
