// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace planloom::ui {

namespace {

constexpr std::int16_t kComputeLane = 0;
const trace::TaskInfo kUnknownTask;
const std::vector<trace::RankInfo> kNoRanks;

double idleShare(const trace::Row &row, trace::Window window)
{
    const auto [first, last] = row.within(window);
    if (first == last || window.end <= window.begin)
        return 0;
    const double busy = static_cast<double>(row.summary(first, last).busy);
    return std::clamp(1 - busy / static_cast<double>(window.end - window.begin), 0.0, 1.0);
}

} // namespace

void TimelineModel::setPredicted(std::shared_ptr<const simulate::Simulation> simulation)
{
    m_predicted = std::move(simulation);
    m_predictedLod.clear();
    if (m_predicted)
        m_predictedLod.append(m_predicted->trace.records);
    layOut();
    setAnchorStep(m_anchor);
}

void TimelineModel::resetMeasured(const trace::Trace &measured)
{
    m_measuredRanks = measured.ranks;
    m_measuredTasks = measured.tasks;
    m_measuredLod.clear();
    m_steps.clear();
    m_anchor = -1;
    m_offset = 0;
    appendMeasured(measured, 0);
    layOut();
}

bool TimelineModel::appendMeasured(const trace::Trace &measured, std::size_t first)
{
    if (m_measuredRanks.size() != measured.ranks.size())
        m_measuredRanks = measured.ranks;
    if (m_measuredTasks.size() != measured.tasks.size())
        m_measuredTasks = measured.tasks;
    const std::size_t before = m_measuredLod.rows().size();
    m_measuredLod.append(std::span(measured.records).subspan(first));
    m_dropped = measured.dropped;
    noteSteps(measured, first);
    const bool added = m_measuredLod.rows().size() != before;
    if (added)
        layOut();
    return added;
}

void TimelineModel::noteSteps(const trace::Trace &measured, std::size_t first)
{
    constexpr std::int32_t kStepLimit = 10'000'000; // a damaged trace must not make a huge table
    for (std::size_t k = first; k < measured.records.size(); ++k) {
        const trace::Record &record = measured.records[k];
        if (record.step < 0 || record.step >= kStepLimit)
            continue;
        const auto step = static_cast<std::size_t>(record.step);
        if (step >= m_steps.size())
            m_steps.resize(step + 1, {std::numeric_limits<std::int64_t>::max(), 0});
        m_steps[step].begin = std::min(m_steps[step].begin, record.start);
        m_steps[step].end = std::max(m_steps[step].end, record.start + record.duration);
    }
    if (m_anchor < 0 && !m_steps.empty())
        setAnchorStep(0);
}

void TimelineModel::setAnchorStep(int step)
{
    if (m_steps.empty()) {
        m_anchor = -1;
        m_offset = 0;
        return measureIdle();
    }
    m_anchor = std::clamp(step, 0, steps() - 1);
    const std::int64_t begin = m_steps[static_cast<std::size_t>(m_anchor)].begin;
    m_offset = begin == std::numeric_limits<std::int64_t>::max() ? 0 : begin - m_predictedLod.begin();
    measureIdle();
}

void TimelineModel::setShowCommunication(bool show)
{
    m_communication = show;
    layOut();
}

// --- rows

std::size_t TimelineModel::groupFor(const std::string &device)
{
    const auto found = std::find_if(m_groups.begin(), m_groups.end(), [&](const Group &g) { return g.device == device; });
    if (found != m_groups.end())
        return static_cast<std::size_t>(found - m_groups.begin());
    m_groups.push_back({});
    m_groups.back().device = device;
    m_ranks.emplace_back(-1, -1);
    return m_groups.size() - 1;
}

void TimelineModel::layOut()
{
    m_groups.clear();
    m_ranks.clear();
    m_rows.clear();
    const auto &predictedRanks = m_predicted ? m_predicted->trace.ranks : kNoRanks;
    for (std::size_t r = 0; r < predictedRanks.size(); ++r)
        m_ranks[groupFor(predictedRanks[r].device)].first = static_cast<int>(r);
    for (std::size_t r = 0; r < m_measuredRanks.size(); ++r)
        m_ranks[groupFor(m_measuredRanks[r].device)].second = static_cast<int>(r);

    int y = kGroupGap / 2;
    for (std::size_t g = 0; g < m_groups.size(); ++g) {
        m_groups[g].y = y;
        for (std::int16_t lane = 0; lane < 5; ++lane) {
            if (lane != kComputeLane && !m_communication)
                break;
            for (const bool measured : {false, true}) {
                const int rank = measured ? m_ranks[g].second : m_ranks[g].first;
                if (rank < 0)
                    continue;
                const auto &all = lod(measured).rows();
                for (std::size_t k = 0; k < all.size(); ++k) {
                    if (all[k].rank() != rank || all[k].lane() != lane)
                        continue;
                    const int height = lane == kComputeLane ? kComputeHeight : kLaneHeight;
                    m_rows.push_back({measured, g, k, lane, y, height});
                    y += height + kRowGap;
                    if (lane == kComputeLane && m_groups[g].stage < 0 && all[k].size() > 0)
                        m_groups[g].stage = task(measured, all[k].record(0).task).stage;
                    if (lane == kComputeLane)
                        noteStages(measured, all[k], m_groups[g].stages);
                }
            }
        }
        m_groups[g].height = y - m_groups[g].y;
        y += kGroupGap;
    }
    m_height = y;
    measureIdle();
}

void TimelineModel::noteStages(bool measured, const trace::Row &row, std::vector<int> &stages) const
{
    constexpr std::size_t kMostSlices = 4096;
    for (std::size_t i = 0; i < std::min(row.size(), kMostSlices); ++i) {
        const int stage = task(measured, row.record(i).task).stage;
        const auto place = std::lower_bound(stages.begin(), stages.end(), stage);
        if (stage >= 0 && (place == stages.end() || *place != stage))
            stages.insert(place, stage);
    }
}

void TimelineModel::measureIdle()
{
    const trace::Window whole{m_predictedLod.begin(), m_predictedLod.end()};
    for (const Row &row : m_rows) {
        if (row.lane != kComputeLane || slices(row).depth() != 0)
            continue;
        Group &group = m_groups[row.group];
        if (!row.measured)
            group.predictedIdle = idleShare(slices(row), whole);
        else if (m_anchor >= 0)
            group.measuredIdle = idleShare(slices(row), step(m_anchor));
    }
}

const trace::TaskInfo &TimelineModel::task(bool measured, std::int32_t index) const
{
    const auto &tasks = measured || !m_predicted ? m_measuredTasks : m_predicted->trace.tasks;
    return index >= 0 && static_cast<std::size_t>(index) < tasks.size() ? tasks[static_cast<std::size_t>(index)] : kUnknownTask;
}

std::int64_t TimelineModel::begin() const
{
    return hasMeasured() ? std::min(m_measuredLod.begin(), m_predictedLod.begin() + m_offset) : m_predictedLod.begin();
}

std::int64_t TimelineModel::end() const
{
    return hasMeasured() ? std::max(m_measuredLod.end(), m_predictedLod.end() + m_offset) : m_predictedLod.end();
}

std::optional<std::size_t> TimelineModel::rowAt(int y) const
{
    const auto after = std::upper_bound(m_rows.begin(), m_rows.end(), y, [](int at, const Row &row) { return at < row.y; });
    if (after == m_rows.begin())
        return std::nullopt;
    const auto row = after - 1;
    if (y >= row->y + row->height)
        return std::nullopt;
    return static_cast<std::size_t>(row - m_rows.begin());
}

std::optional<std::size_t> TimelineModel::rowOf(const Slice &slice) const
{
    const auto found = std::find_if(m_rows.begin(), m_rows.end(),
                                    [&](const Row &row) { return row.measured == slice.measured && row.lod == slice.lod; });
    if (found == m_rows.end())
        return std::nullopt;
    return static_cast<std::size_t>(found - m_rows.begin());
}

} // namespace planloom::ui
