// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_rows.h"

#include <algorithm>
#include <limits>
#include <map>

namespace planloom::ui {

namespace {

/// Of things with y and height, sorted by y: the ones that touch the pixels [top, bottom].
template <class Things>
TimelineRows::Range between(const Things &things, int top, int bottom)
{
    const auto first = std::ranges::partition_point(things, [&](const auto &t) { return t.y + t.height < top; });
    const auto last = std::partition_point(first, things.end(), [&](const auto &t) { return t.y <= bottom; });
    return {static_cast<std::size_t>(first - things.begin()), static_cast<std::size_t>(last - things.begin())};
}

} // namespace

std::string nodeOf(std::string_view device) { return std::string(device.substr(0, device.rfind(':'))); }

std::uint32_t TimelineRows::groupFor(const Content &content, bool measured, std::int32_t rank)
{
    const std::string &device = content.of(measured).tables().ranks[static_cast<std::size_t>(rank)].device;
    const std::int32_t other = measured ? content.predicted.rankOn(device) : -1;
    if (other >= 0)
        return m_groupOfRank[0][static_cast<std::size_t>(other)];
    m_groups.push_back({.device = device});
    return static_cast<std::uint32_t>(m_groups.size() - 1);
}

/// The predicted ones first.
void TimelineRows::addGroups(const Content &content, bool measured)
{
    auto &groups = m_groupOfRank[measured ? 1 : 0];
    groups.clear();
    for (std::int32_t r = 0; r < static_cast<std::int32_t>(content.of(measured).tables().ranks.size()); ++r) {
        const std::uint32_t group = groupFor(content, measured, r);
        (measured ? m_groups[group].measuredRank : m_groups[group].predictedRank) = r;
        groups.push_back(group);
    }
}

/// What @p group is collapsed into; empty: nothing.
std::string TimelineRows::headingOf(const Content &content, const Group &group) const
{
    const RowChoices &choices = content.choices;
    const std::string node = nodeOf(group.device);
    if (choices.collapsedNodes.contains(node))
        return "node " + node;
    for (const bool measured : {false, true}) {
        const auto stages = content.of(measured).stagesOf(measured ? group.measuredRank : group.predictedRank);
        if (!stages.empty() && choices.collapsedStages.contains(stages.front()))
            return "stage " + std::to_string(stages.front());
    }
    return {};
}

/// Pinned devices first, and those that are collapsed together side by side, where the first one of them is. Returns
/// whether each group, in that order, is pinned.
std::vector<bool> TimelineRows::orderGroups(const Content &content)
{
    std::vector<std::uint32_t> order;
    std::vector<std::vector<std::uint32_t>> blocks;
    std::map<std::string, std::size_t> blockOf;
    for (std::uint32_t g = 0; g < m_groups.size(); ++g) {
        if (content.choices.pinned.contains(std::string(m_groups[g].device))) {
            order.push_back(g);
            continue;
        }
        const std::string heading = headingOf(content, m_groups[g]);
        const auto known = heading.empty() ? blockOf.end() : blockOf.find(heading);
        m_groups[g].collapsed = !heading.empty();
        if (known != blockOf.end()) {
            blocks[known->second].push_back(g);
            continue;
        }
        if (!heading.empty())
            blockOf[heading] = blocks.size();
        m_groups[g].heading = heading;
        blocks.push_back({g});
    }
    const std::size_t pinned = order.size();
    for (const auto &block : blocks) {
        Group &first = m_groups[block.front()];
        if (first.collapsed)
            first.heading += ": " + std::to_string(block.size()) + (block.size() == 1 ? " device" : " devices");
        order.insert(order.end(), block.begin(), block.end());
    }
    std::vector<Group> groups;
    std::vector<std::uint32_t> newPlace(m_groups.size());
    for (const std::uint32_t g : order) {
        newPlace[g] = static_cast<std::uint32_t>(groups.size());
        groups.push_back(m_groups[g]);
    }
    m_groups = std::move(groups);
    for (auto &ofRank : m_groupOfRank)
        for (std::uint32_t &group : ofRank)
            group = newPlace[group];
    std::vector<bool> isPinned(m_groups.size(), false);
    std::fill_n(isPinned.begin(), pinned, true);
    return isPinned;
}

void TimelineRows::layOut(const trace::Index &predicted, const trace::Index &measured, const RowChoices &choices)
{
    const Content content{predicted, measured, choices};
    m_groups.clear();
    m_rows.clear();
    m_hidden = 0;
    m_groups.reserve(predicted.tables().ranks.size() + measured.tables().ranks.size());
    for (const bool second : {false, true}) {
        addGroups(content, second);
        m_rowOfLod[second ? 1 : 0].assign(content.of(second).lod().rows().size(), -1);
    }
    std::vector<bool> pinned(m_groups.size(), false);
    if (choices.any())
        pinned = orderGroups(content);
    m_rows.reserve(predicted.lod().rows().size() + measured.lod().rows().size());
    int y = kGroupGap / 2;
    int heading = y; // where what is collapsed together began
    m_pinnedHeight = 0;
    for (std::uint32_t g = 0; g < m_groups.size(); ++g) {
        m_groups[g].y = y;
        addRows(content, g, y);
        m_groups[g].height = y - m_groups[g].y;
        if (!m_groups[g].heading.empty())
            heading = m_groups[g].y;
        const bool goesOn = g + 1 < m_groups.size() && m_groups[g + 1].collapsed && m_groups[g + 1].heading.empty();
        if (m_groups[g].collapsed && !goesOn)
            y = std::max(y, heading + kHeading);
        if (m_groups[g].height > 0 && !goesOn)
            y += kGroupGap;
        if (pinned[g])
            m_pinnedHeight = y;
    }
    m_height = y;
}

/// Lane by lane, the predicted rows above the measured ones.
void TimelineRows::addRows(const Content &content, std::uint32_t group, int &y)
{
    auto [predicted, lastPredicted] = content.predicted.rowsOf(m_groups[group].predictedRank);
    auto [measured, lastMeasured] = content.measured.rowsOf(m_groups[group].measuredRank);
    constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();
    while (predicted < lastPredicted || measured < lastMeasured) {
        const std::int32_t own = predicted < lastPredicted ? content.predicted.lod().rows()[predicted].lane() : kNone;
        const std::int32_t other = measured < lastMeasured ? content.measured.lod().rows()[measured].lane() : kNone;
        const std::int32_t lane = std::min(own, other);
        addLane(content, group, false, lane, predicted, lastPredicted, y);
        addLane(content, group, true, lane, measured, lastMeasured, y);
    }
}

void TimelineRows::addLane(const Content &content, std::uint32_t group, bool measured, std::int32_t lane,
                           std::size_t &next, std::size_t last, int &y)
{
    const trace::LaneInfo &info = content.of(measured).tables().lane(lane);
    const bool computes = info.work == trace::Work::Compute;
    const bool thin = m_groups[group].collapsed;
    const int height = thin ? kThinHeight : computes ? kComputeHeight : kLaneHeight;
    const RowChoices &choices = content.choices;
    const bool hidden = choices.any()
        && (choices.hiddenDevices.contains(std::string(m_groups[group].device))
            || choices.hiddenLanes.contains({std::string(m_groups[group].device), info.name, measured}));
    for (; next < last && content.of(measured).lod().rows()[next].lane() == lane; ++next) {
        m_hidden += hidden ? 1 : 0;
        if (hidden || (!computes && (!choices.communication || thin)))
            continue;
        m_rowOfLod[measured ? 1 : 0][next] = static_cast<std::int32_t>(m_rows.size());
        m_rows.push_back({measured, computes, group, static_cast<std::uint32_t>(next), lane, y, height});
        y += height + (thin ? kThinGap : kRowGap);
    }
}

TimelineRows::Range TimelineRows::rowsBetween(int top, int bottom) const { return between(m_rows, top, bottom); }

TimelineRows::Range TimelineRows::groupsBetween(int top, int bottom) const { return between(m_groups, top, bottom); }

std::optional<std::size_t> TimelineRows::rowAt(int y) const
{
    const auto after =
        std::upper_bound(m_rows.begin(), m_rows.end(), y, [](int at, const Row &row) { return at < row.y; });
    if (after == m_rows.begin())
        return std::nullopt;
    const auto row = after - 1;
    if (y >= row->y + row->height)
        return std::nullopt;
    return static_cast<std::size_t>(row - m_rows.begin());
}

std::optional<std::size_t> TimelineRows::rowOf(bool measured, std::size_t lod) const
{
    const auto &rows = m_rowOfLod[measured ? 1 : 0];
    if (lod >= rows.size() || rows[lod] < 0)
        return std::nullopt;
    return static_cast<std::size_t>(rows[lod]);
}

} // namespace planloom::ui
