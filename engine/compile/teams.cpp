// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/teams.h"

#include <algorithm>

namespace planloom::compile {
namespace {

/// Dimensions of one device cut nothing.
std::vector<int> wideOnes(const sharding::Mesh &mesh, std::vector<int> over)
{
    std::erase_if(over, [&](int dimension) { return mesh.sizes[static_cast<std::size_t>(dimension)] == 1; });
    std::sort(over.begin(), over.end());
    over.erase(std::unique(over.begin(), over.end()), over.end());
    return over;
}

} // namespace

std::vector<std::int32_t> teamOfDevices(const sharding::Mesh &mesh, const std::vector<int> &over)
{
    std::vector<int> strides(mesh.sizes.size(), 1);
    for (std::size_t d = mesh.sizes.size(); d-- > 1;)
        strides[d - 1] = strides[d] * mesh.sizes[d];
    std::vector<std::int32_t> teamOf(static_cast<std::size_t>(mesh.devices()), -1);
    const std::vector<int> wide = wideOnes(mesh, over);
    std::int32_t teams = 0;
    for (int device = 0; device < mesh.devices(); ++device) {
        int first = device; // of the team: where the dimensions have coordinate 0
        for (const int dimension : wide) {
            const auto d = static_cast<std::size_t>(dimension);
            first -= device / strides[d] % mesh.sizes[d] * strides[d];
        }
        std::int32_t &team = teamOf[static_cast<std::size_t>(first)];
        if (team < 0)
            team = teams++;
        teamOf[static_cast<std::size_t>(device)] = team;
    }
    return teamOf;
}

std::size_t TeamSets::teamsOver(const Use &use) const
{
    const sharding::Mesh &mesh = m_meshes[use.first];
    std::size_t each = 1;
    for (const int dimension : wideOnes(mesh, use.second))
        each *= static_cast<std::size_t>(mesh.sizes[static_cast<std::size_t>(dimension)]);
    return static_cast<std::size_t>(mesh.devices()) / each;
}

std::vector<TeamSets::Use> TeamSets::keyOf(const std::vector<Use> &uses) const
{
    std::vector<Use> key = uses;
    for (Use &use : key)
        use.second = wideOnes(m_meshes[use.first], use.second);
    return key;
}

std::int32_t TeamSets::find(const Use &use) const { return m_indices.at(keyOf({use})); }

std::int32_t TeamSets::add(const std::vector<Use> &uses)
{
    const auto [entry, isNew] = m_indices.try_emplace(keyOf(uses), static_cast<std::int32_t>(m_sets.size()));
    if (!isNew)
        return entry->second;
    std::vector<std::vector<RankId>> teams(teamsOver(uses.front()));
    for (const Use &use : uses) {
        const std::vector<std::int32_t> teamOf = teamOfDevices(m_meshes[use.first], use.second);
        for (std::size_t device = 0; device < teamOf.size(); ++device)
            teams[static_cast<std::size_t>(teamOf[device])].push_back(m_ranks[use.first][device]);
    }
    TeamSet set;
    for (std::vector<RankId> &team : teams) { // a rank that has several of the stages is a member once
        std::sort(team.begin(), team.end());
        team.erase(std::unique(team.begin(), team.end()), team.end());
        set.begins.push_back(set.members.size());
        set.members.insert(set.members.end(), team.begin(), team.end());
    }
    set.begins.push_back(set.members.size());
    m_sets.push_back(std::move(set));
    return entry->second;
}

std::int32_t TeamSets::divide(std::int32_t whole, const std::vector<std::int32_t> &partOf)
{
    const auto [entry, isNew] = m_divided.try_emplace({whole, partOf}, static_cast<std::int32_t>(m_sets.size()));
    if (!isNew)
        return entry->second;
    TeamSet divided;
    for (std::size_t t = 0; t < set(whole).size(); ++t) {
        std::vector<std::vector<RankId>> parts;
        std::map<std::int32_t, std::size_t> places;
        for (const RankId rank : set(whole).team(t)) {
            const auto [place, isFirst] = places.try_emplace(partOf[rank.index()], parts.size());
            if (isFirst)
                parts.emplace_back();
            parts[place->second].push_back(rank);
        }
        for (const std::vector<RankId> &part : parts) {
            divided.begins.push_back(divided.members.size());
            divided.members.insert(divided.members.end(), part.begin(), part.end());
        }
    }
    divided.begins.push_back(divided.members.size());
    m_sets.push_back(std::move(divided));
    return entry->second;
}

std::vector<int> dimensionsOf(const graph::Op &op)
{
    const std::vector<std::int64_t> several = op.integers("mesh_dims");
    if (several.empty())
        return {static_cast<int>(op.integer("mesh_dim"))};
    return {several.begin(), several.end()};
}

} // namespace planloom::compile
