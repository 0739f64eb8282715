// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/gnn/balance.h"
#include "planners/gnn/exhaustive.h"
#include "planners/gnn/explore.h"
#include "planners/gnn/initial.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace planloom::planners::gnn {

/// How placements are searched.
enum class SearchKind : std::uint8_t {
    Initial,    ///< the first feasible placement
    Explore,    ///< from there by the load of the cards, then by a Markov chain on schedules
    Exhaustive, ///< every feasible placement
};

/// Of any search of placements.
struct SearchOptions {
    SearchKind kind = SearchKind::Explore;
    /// `proposals` 0: as many as defaultProposals() says.
    ExploreOptions explore;
    std::int64_t mostPlacements = std::int64_t{1} << 20; ///< that Exhaustive looks at
};

/// 1,000, and fewer where a schedule has so many steps that they would take more than some 10 seconds.
std::int64_t defaultProposals(const Job &job);

/// A placement and how it was found. What is not set was not asked for or does not fit.
struct SearchResult {
    Placement machineOf;
    double seconds = 0; ///< of all iterations
    Placement initial;
    double initialSeconds = 0;
    std::optional<double> colocatedSeconds; ///< DGL's way (colocatedPlacement)
    std::optional<Balanced> balanced;
    std::optional<double> balancedSeconds; ///< the least on its way
    std::optional<Exploration> exploration;
    Placement explored; ///< where it started: the best of those before
    std::optional<Exhaustive> all;
    bool stopped = false; ///< before all placements had been tried, where these were asked for
    /// The best of each way to find one, of all placements the best few, for a caller who knows the cost of a placement
    /// more exactly than a schedule.
    std::vector<Placement> candidates;
    [[nodiscard]] bool complete() const
    {
        return !stopped && !(balanced && balanced->cancelled) && !(exploration && exploration->cancelled);
    }
};

/// The search of a placement. Explore is never worse than the first placement or colocation, and where at most a few
/// thousand placements exist it looks at all of them. Errors: those of initialPlacement() and exhaustivePlacement().
Result<SearchResult> searchPlacement(const Job &job, const SearchOptions &options, Progress &progress);

} // namespace planloom::planners::gnn
