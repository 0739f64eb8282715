// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/compile/stage_tensors.h"
#include "engine/compile/vocabulary.h"

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace planloom::compile {

/// Teams that do the same side by side: the ranks of a mesh, cut into those that differ in some of its dimensions only.
struct TeamSet {
    std::vector<RankId> members;     ///< of the plan, team after team, each sorted
    std::vector<std::size_t> begins; ///< per team, and the end
    [[nodiscard]] std::size_t size() const { return begins.size() - 1; }
    [[nodiscard]] std::span<const RankId> team(std::size_t t) const
    {
        return std::span(members).subspan(begins[t], begins[t + 1] - begins[t]);
    }
};

/// Every set of teams that a program needs, found once.
class TeamSets {
public:
    /// A stage and dimensions of its mesh.
    using Use = std::pair<std::size_t, std::vector<int>>;
    /// Per stage, its mesh, and the plan's ranks in the order of the mesh.
    TeamSets(std::vector<sharding::Mesh> meshes, std::vector<std::vector<RankId>> ranks)
        : m_meshes(std::move(meshes)),
          m_ranks(std::move(ranks))
    {
    }

    /// The set of the teams that the uses make together, which must have equally many: team i of each is joined.
    std::int32_t add(const std::vector<Use> &uses);
    /// The set of the parts of the teams of @p whole: members with the same number, of @p partOf, which has one for
    /// each rank, are in one. Part after part of a team, in the order of their first members.
    std::int32_t divide(std::int32_t whole, const std::vector<std::int32_t> &partOf);
    /// One that was added.
    [[nodiscard]] std::int32_t find(const Use &use) const;
    [[nodiscard]] std::size_t size() const { return m_sets.size(); }
    [[nodiscard]] const TeamSet &set(std::int32_t index) const { return m_sets[static_cast<std::size_t>(index)]; }
    /// Of one stage alone.
    [[nodiscard]] std::size_t teamsOver(const Use &use) const;

private:
    [[nodiscard]] std::vector<Use> keyOf(const std::vector<Use> &uses) const;

    std::vector<sharding::Mesh> m_meshes;
    std::vector<std::vector<RankId>> m_ranks;
    std::vector<TeamSet> m_sets;
    std::map<std::vector<Use>, std::int32_t> m_indices;
    std::map<std::pair<std::int32_t, std::vector<std::int32_t>>, std::int32_t> m_divided;
};

/// The devices of @p mesh that differ in the dimensions @p over only: each one's team, teams being numbered by their
/// first device.
std::vector<std::int32_t> teamOfDevices(const sharding::Mesh &mesh, const std::vector<int> &over);

/// The mesh dimensions that communicating operator @p op goes over.
std::vector<int> dimensionsOf(const graph::Op &op);

} // namespace planloom::compile
