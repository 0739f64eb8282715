// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "planners/gnn/evaluation.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace planloom::planners::gnn {

/// A change of a placement: one role to another machine, or two roles change places.
struct Proposal {
    bool swap = false;
    std::int32_t role = 0;
    std::int32_t machine = 0; ///< of a move
    std::int32_t other = 0;   ///< role of a swap
};

/// The proposal that three numbers in [0, 1) choose: a move if @p kind < 1/2, else a swap; the first role is
/// movable[floor(x * roles)], and y chooses among the other machines or the other roles. Both are symmetric, and with
/// one machine or one role the proposal changes nothing.
Proposal proposalOf(const Job &job, std::span<const std::int32_t> movable, std::span<const std::int32_t> machineOf,
                    double kind, double x, double y);

/// Applies @p proposal to @p machineOf and @p room where it fits and changes something; else leaves them.
bool apply(const Proposal &proposal, Placement &machineOf, Room &room);

/// Metropolis: the probability that a placement of @p proposed seconds follows one of @p present.
double acceptance(double beta, double present, double proposed);

/// Of the Markov chain over placements.
struct ExploreOptions {
    /// 1/seconds; 0: kRelativeBeta / seconds of the start.
    double beta = 0;
    std::int64_t proposals = 1000;
    std::int64_t patience = 0; ///< stop after so many proposals without a better placement; 0: never
    std::uint64_t seed = 1;
    TransferPolicy policy = TransferPolicy::Degree;
    static constexpr double kRelativeBeta = 50; ///< between 20 and 100 single moves are accepted, and bad ones are not
};

/// A proposal that was accepted.
struct Accepted {
    std::int64_t number = 0; ///< of the proposal, from 1
    Proposal proposal;
    double seconds = 0; ///< of the placement that it led to
};

/// What the chain found, and how.
struct Exploration {
    Placement machineOf; ///< the best
    double seconds = 0;
    double startSeconds = 0;
    std::int64_t bestAt = 0;    ///< proposal that led to it first; 0: the start
    std::int64_t proposals = 0; ///< made
    std::int64_t evaluated = 0; ///< of them: feasible and a change
    bool optimal = false;       ///< no placement can take less: messages cost nothing; this ended the search
    bool cancelled = false;     ///< the user stopped it; what was found until then stands
    std::vector<Accepted> accepted;
};

/// Exploratory task placement: Markov chain Monte Carlo over feasible placements from @p start, with the seconds of
/// gnn::Scheduler as cost. Its stationary distribution is proportional to exp(-beta * seconds), as proposals are
/// symmetric and those that do not fit leave the placement as it is. Moves alone do not reach every placement where
/// resources are tight. Deterministic: four numbers of the seed's stream a proposal (kind, x, y, acceptance).
/// Cost: one schedule a feasible proposal.
Exploration explore(const Job &job, const Placement &start, const ExploreOptions &options, Progress &progress);

} // namespace planloom::planners::gnn
