// SPDX-License-Identifier: Apache-2.0
#include "planners/gnn/search.h"

#include <algorithm>

namespace planloom::planners::gnn {
namespace {

/// Whether machines^roles is at most @p most.
bool fewPlacements(const Job &job, std::int64_t most)
{
    std::int64_t count = 1;
    for (std::size_t role = 0; role < movableRoles(job).size(); ++role) {
        count *= static_cast<std::int64_t>(job.machines.size());
        if (count > most)
            return false;
    }
    return true;
}

/// The best placement on the way of the descent.
void followDescent(const Job &job, Evaluation &evaluation, SearchResult &found, Progress &progress)
{
    found.balanced = balance(job, found.initial, progress);
    const std::vector<Proposal> &changes = found.balanced->changes;
    Placement machineOf = found.initial;
    Placement best = machineOf;
    Room room(job, machineOf);
    constexpr std::size_t kLooks = 8; // schedules on the way
    for (std::size_t i = 0; i < changes.size(); ++i) {
        apply(changes[i], machineOf, room);
        const bool look = i + 1 == changes.size() || (i + 1) * kLooks / changes.size() > i * kLooks / changes.size();
        if (!look)
            continue;
        const double seconds = evaluation.seconds(machineOf);
        if (!found.balancedSeconds || seconds < *found.balancedSeconds) {
            found.balancedSeconds = seconds;
            best = machineOf;
        }
        if (seconds < found.seconds) {
            found.seconds = seconds;
            found.machineOf = machineOf;
        }
    }
    found.candidates.push_back(std::move(best));
}

Status tryAll(const Job &job, const SearchOptions &options, std::int64_t most, SearchResult &found, Progress &progress)
{
    auto all = exhaustivePlacement(job, options.explore.policy, most, progress);
    if (!all && all.error().code == ErrorCode::Cancelled) {
        found.stopped = true;
        return {};
    }
    if (!all)
        return all.error();
    found.stopped = all->cancelled();
    if (!all->cancelled() || all->bestSeconds < found.seconds) {
        found.machineOf = all->best;
        found.seconds = all->bestSeconds;
    }
    found.candidates.insert(found.candidates.end(), all->leading.begin(), all->leading.end());
    found.all = *std::move(all);
    return {};
}

} // namespace

std::int64_t defaultProposals(const Job &job)
{
    constexpr std::int64_t kMost = 1000;
    constexpr std::int64_t kSteps = 6'000'000; // 64 machines, 50,000 steps a schedule: 120 of them, some 10 s
    const auto steps = static_cast<std::int64_t>(planloom::gnn::networkOf(job).steps());
    return std::clamp<std::int64_t>(kSteps / std::max<std::int64_t>(1, steps), 1, kMost);
}

Result<SearchResult> searchPlacement(const Job &job, const SearchOptions &options, Progress &progress)
{
    auto first = initialPlacement(job, progress);
    if (!first)
        return first.error();
    Evaluation evaluation(job, options.explore.policy);
    SearchResult found;
    found.machineOf = found.initial = std::move(first->machineOf);
    found.seconds = found.initialSeconds = evaluation.seconds(found.initial);
    const auto colocated = colocatedPlacement(job);
    if (colocated)
        found.colocatedSeconds = evaluation.seconds(*colocated);
    found.candidates = {found.initial};
    if (options.kind == SearchKind::Initial)
        return found;
    if (colocated) {
        found.candidates.push_back(*colocated);
        if (*found.colocatedSeconds < found.seconds) {
            found.seconds = *found.colocatedSeconds;
            found.machineOf = *colocated;
        }
    }
    constexpr std::int64_t kFew = 4096; // schedules of small jobs: less than the chain's own
    if (options.kind == SearchKind::Exhaustive || fewPlacements(job, kFew)) {
        const std::int64_t most = options.kind == SearchKind::Exhaustive ? options.mostPlacements : kFew;
        if (Status status = tryAll(job, options, most, found, progress); !status)
            return status.error();
        return found;
    }
    followDescent(job, evaluation, found, progress);
    ExploreOptions how = options.explore;
    if (how.proposals == 0)
        how.proposals = defaultProposals(job);
    found.explored = found.machineOf;
    found.exploration = explore(job, found.explored, how, progress);
    found.machineOf = found.exploration->machineOf;
    found.seconds = found.exploration->seconds;
    return found;
}

} // namespace planloom::planners::gnn
