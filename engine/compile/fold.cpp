// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/fold.h"

#include <algorithm>
#include <numeric>

namespace planloom::compile {
namespace {

std::vector<DeviceId> devicesOf(std::span<const RankId> team, const std::vector<DeviceId> &devices)
{
    std::vector<DeviceId> found;
    found.reserve(team.size());
    for (const RankId rank : team)
        found.push_back(devices[rank.index()]);
    return found;
}

/// Splits kinds of ranks until teams do not tell ranks of a kind apart.
class Refiner {
public:
    Refiner(std::vector<std::int32_t> kinds, const std::vector<DeviceId> &devices, const TeamSets &sets,
            cluster::Shapes &shapes)
        : m_sets(sets),
          m_kinds(std::move(kinds))
    {
        for (std::size_t s = 0; s < sets.size(); ++s) {
            const TeamSet &set = sets.set(static_cast<std::int32_t>(s));
            m_shapes.emplace_back();
            for (std::size_t t = 0; t < set.size(); ++t)
                m_shapes.back().push_back(shapes.of(devicesOf(set.team(t), devices)));
        }
    }

    std::vector<std::int32_t> refine()
    {
        std::int32_t before = -1;
        for (std::int32_t now = number(); now != before; now = split())
            before = now;
        return m_kinds;
    }

private:
    /// How many kinds there are.
    [[nodiscard]] std::int32_t number() const
    {
        return m_kinds.empty() ? 0 : *std::max_element(m_kinds.begin(), m_kinds.end()) + 1;
    }

    /// Tells ranks apart by what their teams consist of, one set after the other. Returns how many kinds there are
    /// then.
    std::int32_t split()
    {
        for (std::size_t s = 0; s < m_sets.size(); ++s) {
            const TeamSet &set = m_sets.set(static_cast<std::int32_t>(s));
            std::map<std::vector<std::int32_t>, std::int32_t> known;
            std::vector<std::int32_t> teamKind(set.size());
            for (std::size_t t = 0; t < set.size(); ++t)
                teamKind[t] =
                    known.try_emplace(describe(set.team(t), m_shapes[s][t]), static_cast<std::int32_t>(known.size()))
                        .first->second;
            if (known.size() > 1)
                apply(set, teamKind);
        }
        return number();
    }

    /// The shape, then each kind of member and how many there are.
    [[nodiscard]] std::vector<std::int32_t> describe(std::span<const RankId> team, std::int32_t shape) const
    {
        std::vector<std::int32_t> members;
        members.reserve(team.size());
        for (const RankId rank : team)
            members.push_back(m_kinds[rank.index()]);
        std::sort(members.begin(), members.end());
        std::vector<std::int32_t> description{shape};
        for (std::size_t i = 0; i < members.size();) {
            const std::size_t first = i;
            while (i < members.size() && members[i] == members[first])
                ++i;
            description.insert(description.end(), {members[first], static_cast<std::int32_t>(i - first)});
        }
        return description;
    }

    void apply(const TeamSet &set, const std::vector<std::int32_t> &teamKind)
    {
        std::vector<std::int32_t> joined(m_kinds.size(), -1); // ranks that the set leaves out stay as they are
        for (std::size_t t = 0; t < set.size(); ++t)
            for (const RankId rank : set.team(t))
                joined[rank.index()] = teamKind[t];
        std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> known;
        for (std::size_t r = 0; r < m_kinds.size(); ++r)
            m_kinds[r] =
                known.try_emplace({m_kinds[r], joined[r]}, static_cast<std::int32_t>(known.size())).first->second;
    }

    const TeamSets &m_sets;
    std::vector<std::int32_t> m_kinds;
    std::vector<std::vector<std::int32_t>> m_shapes; ///< per set and team
};

} // namespace

Fold noFold(std::size_t ranks)
{
    Fold fold;
    for (std::size_t r = 0; r < ranks; ++r)
        fold.standIn.emplace_back(static_cast<std::int64_t>(r));
    fold.representatives = fold.standIn;
    return fold;
}

Fold foldRanks(std::vector<std::int32_t> kinds, const std::vector<DeviceId> &devices, const TeamSets &sets,
               cluster::Shapes &shapes)
{
    kinds = Refiner(std::move(kinds), devices, sets, shapes).refine();
    Fold fold;
    std::vector<RankId> first(kinds.size());
    for (std::size_t r = 0; r < kinds.size(); ++r) {
        RankId &standIn = first[static_cast<std::size_t>(kinds[r])];
        if (!standIn.valid()) {
            standIn = RankId(static_cast<std::int64_t>(fold.representatives.size()));
            fold.representatives.emplace_back(static_cast<std::int64_t>(r));
        }
        fold.standIn.push_back(standIn);
    }
    return fold;
}

FoldedTeams::FoldedTeams(const TeamSets &sets, const Fold &fold, const std::vector<DeviceId> &devices,
                         cluster::Shapes &shapes)
{
    std::map<std::vector<DeviceId>, TeamId> known;
    const bool folded = fold.representatives.size() < fold.standIn.size();
    for (std::size_t s = 0; s < sets.size(); ++s) {
        const TeamSet &set = sets.set(static_cast<std::int32_t>(s));
        m_teams.emplace_back();
        m_teamOf.emplace_back();
        for (std::size_t t = 0; t < set.size(); ++t) {
            // Where a member's stand-in has its team already, this one is alike.
            if (folded && m_teamOf.back().contains(fold.standIn[set.team(t).front().index()]))
                continue;
            Team team;
            for (const RankId rank : set.team(t))
                team.ranks.push_back(fold.standIn[rank.index()]);
            std::sort(team.ranks.begin(), team.ranks.end());
            team.ranks.erase(std::unique(team.ranks.begin(), team.ranks.end()), team.ranks.end());
            team.devices = devicesOf(set.team(t), devices);
            const auto [entry, isNew] = known.try_emplace(team.devices, static_cast<std::int64_t>(m_all.size()));
            m_teams.back().push_back(entry->second);
            for (const RankId rank : team.ranks)
                m_teamOf.back().emplace(rank, entry->second);
            if (!isNew)
                continue;
            m_shapes.push_back(shapes.of(team.devices));
            m_all.push_back(std::move(team));
        }
    }
}

} // namespace planloom::compile
