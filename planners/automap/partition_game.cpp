// SPDX-License-Identifier: Apache-2.0
#include "planners/automap/environment.h"

#include <algorithm>

namespace planloom::planners::automap {

PartitionGame::PartitionGame(const RuleGraph &graph, const std::vector<int> &variables, PartitionSettings settings)
    : m_graph(graph),
      m_variables(byReach(graph, variables, settings.consistency)),
      m_settings(settings),
      m_start(everything(graph)),
      m_legal(2, 0)
{
    const std::vector<Linkage> groups = linkageGroups(graph, m_variables, settings.consistency);
    for (const Linkage &group : groups) {
        if (group.split == kReplicated)
            continue;
        m_dims.push_back({group.variable, group.split});
        m_groups.push_back(group);
    }
    for (const int variable : m_variables)
        m_total += graph.tensors[static_cast<std::size_t>(variable)].bytes;
    reset();
}

void PartitionGame::reset()
{
    m_allowed = m_start;
    m_next = 0;
    m_over = false;
    m_score = kLost;
    settle();
}

std::vector<int> PartitionGame::decisions() const
{
    std::vector<int> result;
    for (const Dimension &dimension : m_dims) {
        const std::uint32_t set = m_allowed[static_cast<std::size_t>(dimension.variable)];
        const bool possible = (set & bitOf(dimension.axis)) != 0;
        result.push_back(!possible ? 0 : isDecided(set) ? 1 : -1);
    }
    return result;
}

std::vector<float> PartitionGame::state() const
{
    std::vector<float> result;
    for (const int decision : decisions())
        result.push_back(static_cast<float>(decision));
    result.push_back(static_cast<float>(m_next) / static_cast<float>(std::max<std::size_t>(1, m_dims.size())));
    result.push_back(m_total > 0 ? static_cast<float>(splitBytes() / m_total) : 0);
    return result;
}

double PartitionGame::splitBytes() const
{
    double bytes = 0;
    for (const int variable : m_variables)
        if (const std::uint32_t set = m_allowed[static_cast<std::size_t>(variable)];
            isDecided(set) && splitOf(set) != kReplicated)
            bytes += m_graph.tensors[static_cast<std::size_t>(variable)].bytes;
    return bytes;
}

/// Splitting is legal unless its group alone forbids it, or contradicts earlier decisions.
bool PartitionGame::mayBeSplit(const Dimension &dimension) const
{
    if ((m_allowed[static_cast<std::size_t>(dimension.variable)] & bitOf(dimension.axis)) == 0)
        return false;
    if (!m_settings.linkage)
        return true;
    const Linkage &group = m_groups[m_next];
    return group.feasible
        && std::all_of(group.implied.begin(), group.implied.end(), [&](const std::pair<int, int> &implied) {
               return (m_allowed[static_cast<std::size_t>(implied.first)] & bitOf(implied.second)) != 0;
           });
}

void PartitionGame::choose(int variable, int dimension)
{
    for (m_next = 0; m_next < m_dims.size(); ++m_next)
        if (m_dims[m_next].variable == variable && m_dims[m_next].axis == dimension)
            break;
    m_legal = {1, static_cast<char>(mayBeSplit(m_dims[m_next]) ? 1 : 0)};
}

/// Goes on to the next dimension that is open; ends where there is none.
void PartitionGame::settle()
{
    const std::vector<int> decided = decisions();
    for (m_next = 0; m_next < m_dims.size() && decided[m_next] != -1;)
        ++m_next;
    if (m_next == m_dims.size())
        return end();
    const Dimension &dimension = m_dims[m_next];
    const std::uint32_t rest = m_allowed[static_cast<std::size_t>(dimension.variable)] & ~bitOf(dimension.axis);
    m_legal = {static_cast<char>(rest != 0 ? 1 : 0), static_cast<char>(mayBeSplit(dimension) ? 1 : 0)};
    if (m_legal[0] == 0 && m_legal[1] == 0)
        m_over = true;
}

void PartitionGame::end()
{
    m_over = true;
    m_legal = {0, 0};
    const double split = splitBytes();
    double reduced = 0;
    if (!complete(m_graph, m_allowed, reduced))
        return;
    if (m_settings.countTensors) {
        const auto tensors = std::count_if(m_allowed.begin(), m_allowed.end(),
                                           [](std::uint32_t set) { return splitOf(set) != kReplicated; });
        m_score = static_cast<double>(tensors) / static_cast<double>(std::max<std::size_t>(1, m_allowed.size()));
        return;
    }
    m_score = m_total > 0 ? (split - m_settings.communication * reduced) / m_total : 0;
}

double PartitionGame::act(std::size_t action)
{
    constexpr double kConflict = -1;
    const Dimension dimension = m_dims[m_next];
    const double before = splitBytes();
    const bool consistent = action == 1
        ? decide(m_graph, m_allowed, dimension.variable, dimension.axis, m_settings.consistency)
        : exclude(m_graph, m_allowed, dimension.variable, dimension.axis, m_settings.consistency);
    if (!consistent) {
        m_over = true;
        m_legal = {0, 0};
        return kConflict;
    }
    const double gained = m_total > 0 ? (splitBytes() - before) / m_total : 0;
    settle();
    if (!m_over)
        return m_settings.countTensors ? 0 : gained;
    if (m_score == kLost)
        return kConflict;
    // The reward on the way, less the communication that only the end knows.
    return m_settings.countTensors ? m_score : gained + m_score - (m_total > 0 ? splitBytes() / m_total : 0);
}

} // namespace planloom::planners::automap
