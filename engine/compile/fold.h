// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cluster/shape.h"
#include "engine/compile/teams.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace planloom::compile {

/// Which ranks of a plan its program has, and which of the others each stands for.
///
/// Ranks are alike if they are on the same stages, on devices of one type, compute in the same order with as many
/// samples of each micro-batch, and if in every set of teams theirs lies in the cluster as the others' do and consists
/// of ranks that are alike, in the same numbers. That is an equitable partition: one of each kind, in teams of one of
/// each kind, does at every moment what all of them do, provided that collectives take as long as those of the whole
/// team, and that the clock starts tasks without regard to the numbers of ranks.
struct Fold {
    std::vector<RankId> standIn; ///< per rank of the plan: the program's rank that stands for it
    std::vector<RankId>
        representatives; ///< per rank of the program: the rank of the plan that it is, the first of its kind
};

/// Every rank for itself.
Fold noFold(std::size_t ranks);

/// The coarsest such partition that refines @p kinds, a number per rank of the plan, if lists of @p shapes tell devices
/// apart. Cost: a few passes over the members of all teams.
Fold foldRanks(std::vector<std::int32_t> kinds, const std::vector<DeviceId> &devices, const TeamSets &sets,
               cluster::Shapes &shapes);

/// The teams of a program, by set.
class FoldedTeams {
public:
    /// The teams of every set as @p fold leaves them: one for those that consist of ranks alike. @p shapes, which
    /// foldRanks() may have filled, spares the second description of the same devices.
    FoldedTeams(const TeamSets &sets, const Fold &fold, const std::vector<DeviceId> &devices, cluster::Shapes &shapes);

    /// Program::teams.
    [[nodiscard]] std::vector<Team> take() && { return std::move(m_all); }
    [[nodiscard]] const Team &team(TeamId id) const { return m_all[id.index()]; }
    /// Those of @p set, in its order.
    [[nodiscard]] const std::vector<TeamId> &teams(std::int32_t set) const
    {
        return m_teams[static_cast<std::size_t>(set)];
    }
    /// That of @p rank of the program.
    [[nodiscard]] TeamId teamOf(std::int32_t set, RankId rank) const
    {
        return m_teamOf[static_cast<std::size_t>(set)].at(rank);
    }
    /// Equal for teams whose collectives take equally long.
    [[nodiscard]] std::int32_t shape(TeamId team) const { return m_shapes[team.index()]; }

private:
    std::vector<Team> m_all;
    std::vector<std::vector<TeamId>> m_teams;
    std::vector<std::map<RankId, TeamId>> m_teamOf;
    std::vector<std::int32_t> m_shapes;
};

} // namespace planloom::compile
