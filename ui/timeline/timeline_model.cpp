// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace planloom::ui {

namespace {

const trace::TaskInfo kUnknownTask;

std::vector<std::int32_t> snapshots(const trace::Tables &tables)
{
    std::vector<std::int32_t> tasks;
    for (std::size_t task = 0; task < tables.tasks.size(); ++task)
        if (tables.tasks[task].kind == trace::Kind::Snapshot)
            tasks.push_back(static_cast<std::int32_t>(task));
    return tasks;
}

double idleShare(const trace::Row &row, trace::Window window)
{
    const auto [first, last] = row.within(window);
    if (first == last || window.end <= window.begin)
        return 0;
    const double busy = static_cast<double>(row.summary(first, last).busy);
    return std::clamp(1 - busy / static_cast<double>(window.end - window.begin), 0.0, 1.0);
}

} // namespace

TimelineModel::TimelineModel()
    : m_predicted(std::make_shared<const trace::Index>()),
      m_growing(std::make_shared<trace::Index>())
{
    m_measured = m_allMeasured = m_growing;
}

void TimelineModel::setPredicted(std::shared_ptr<const simulate::Simulation> simulation, IndexPtr index)
{
    m_idle.clear();
    m_simulation = simulation;
    if (simulation && simulation->report.devices.size() <= simulation->trace.ranks.size())
        for (const simulate::DeviceReport &device : simulation->report.devices)
            m_idle.push_back(std::clamp(1 - device.busyFraction, 0.0, 1.0));
    if (index)
        m_predicted = std::move(index);
    else if (simulation)
        m_predicted =
            std::make_shared<const trace::Index>(std::shared_ptr<const trace::Trace>(simulation, &simulation->trace));
    else
        m_predicted = std::make_shared<const trace::Index>();
    layOut();
    setAnchorStep(m_anchor);
}

void TimelineModel::resetMeasured(const trace::Trace &measured, IndexPtr index,
                                  std::shared_ptr<const trace::Trace> file)
{
    m_file = std::move(file);
    m_growing.reset();
    if (!index) {
        m_growing = std::make_shared<trace::Index>(std::make_shared<const trace::Tables>(measured));
        m_growing->append(measured.records);
        index = m_growing;
    }
    m_allMeasured = std::move(index);
    m_measured = m_showMeasured ? m_allMeasured : std::make_shared<const trace::Index>();
    m_simulated = measured.clock == "cost";
    m_dropped = measured.dropped;
    m_anchor = -1;
    m_offset = 0;
    if (steps() > 0)
        setAnchorStep(0);
    layOut();
}

bool TimelineModel::appendMeasured(const trace::Trace &measured, std::size_t first)
{
    if (!m_growing)
        return false;
    const std::size_t before = m_growing->lod().rows().size();
    m_growing->append(std::span(measured.records).subspan(first));
    m_dropped = measured.dropped;
    if (!m_showMeasured)
        return false;
    if (m_anchor < 0 && steps() > 0)
        setAnchorStep(0);
    const bool added = lod(true).rows().size() != before;
    if (added)
        layOut();
    return added;
}

bool TimelineModel::isRestOf(const trace::Trace &measured) const
{
    if (!m_growing || measured.records.empty() || measured.dropped <= m_dropped)
        return false;
    const trace::Tables &own = m_growing->tables();
    return own.ranks.size() == measured.ranks.size() && own.lanes.size() == measured.lanes.size()
        && own.tasks.size() == measured.tasks.size();
}

void TimelineModel::replaceGrowing(const trace::Trace &measured, std::shared_ptr<trace::Index> index,
                                   std::size_t indexed)
{
    index->append(std::span(measured.records).subspan(std::min(indexed, measured.records.size())));
    m_growing = std::move(index);
    m_allMeasured = m_growing;
    m_dropped = measured.dropped;
    if (!m_showMeasured)
        return;
    m_measured = m_allMeasured;
    setAnchorStep(std::max(m_anchor, 0));
    layOut();
}

void TimelineModel::setAnchorStep(int step)
{
    if (steps() == 0) {
        m_anchor = -1;
        m_offset = 0;
        return;
    }
    m_anchor = std::clamp(step, firstStep(), steps() - 1) / roundSteps() * roundSteps();
    m_offset = hasStep(m_anchor) ? this->step(m_anchor).begin - lod(false).begin() : 0;
}

bool TimelineModel::hasStep(int step) const
{
    return step >= 0 && step < steps() && this->step(step).begin != std::numeric_limits<std::int64_t>::max();
}

int TimelineModel::firstStep() const
{
    int first = 0;
    while (first < steps() && !hasStep(first))
        ++first;
    return first < steps() ? first : 0;
}

int TimelineModel::lastWholeRound() const
{
    const auto last = trace::lastWholeRound(tables(true).rounds, m_measured->steps());
    return last ? static_cast<int>(last->first) : 0;
}

trace::Round TimelineModel::round(int step) const
{
    const auto &windows = m_measured->steps();
    const auto first = static_cast<std::size_t>(step / roundSteps() * roundSteps());
    const auto last = std::min(first + static_cast<std::size_t>(roundSteps()), windows.size());
    // As the last of the steps up to the next round's first.
    const auto whole =
        trace::lastWholeRound(tables(true).rounds, std::span(windows).first(std::min(last + 1, windows.size())));
    if (whole && whole->first == static_cast<std::int64_t>(first))
        return *whole;
    trace::Round part;
    part.first = static_cast<std::int64_t>(first);
    part.steps = static_cast<std::int32_t>(last - first);
    part.window = windows[first];
    for (std::size_t s = first + 1; s < last; ++s)
        part.window = {std::min(part.window.begin, windows[s].begin), std::max(part.window.end, windows[s].end)};
    return part;
}

void TimelineModel::setShowMeasured(bool show)
{
    if (show == m_showMeasured)
        return;
    m_showMeasured = show;
    m_measured = show ? m_allMeasured : std::make_shared<const trace::Index>();
    setAnchorStep(lastWholeRound());
    layOut();
}

void TimelineModel::setShowCommunication(bool show)
{
    m_choices.communication = show;
    layOut();
}

void TimelineModel::setChoices(const RowChoices &choices)
{
    m_choices = choices;
    layOut();
}

const simulate::Causes *TimelineModel::causes(bool measured) const
{
    if (!m_simulation || m_simulation->causes.empty())
        return nullptr;
    if (measured && !m_sameTasks) {
        const auto &own = tables(false).tasks;
        const auto &other = tables(true).tasks;
        m_sameTasks = own.size() <= other.size()
            && std::equal(own.begin(), own.end(), other.begin(),
                          [](const auto &a, const auto &b) { return a.id == b.id && a.group == b.group; });
    }
    return !measured || *m_sameTasks ? &m_simulation->causes : nullptr;
}

void TimelineModel::layOut()
{
    m_layout.layOut(*m_predicted, *m_measured, m_choices);
    m_sameTasks.reset();
    for (const bool measured : {false, true})
        m_snapshots[measured ? 1 : 0] = snapshots(tables(measured));
    for (const bool measured : {false, true})
        m_gauges[measured ? 1 : 0] = trace::gaugesOf(tables(measured));
}

const trace::Gauge *TimelineModel::gauge(const Row &row) const
{
    const auto &gauges = m_gauges[row.measured ? 1 : 0];
    const auto found = std::ranges::find(gauges, row.lane, &trace::Gauge::lane);
    return found != gauges.end() ? &*found : nullptr;
}

std::vector<int> TimelineModel::stages(const Group &group) const
{
    const auto own = m_predicted->stagesOf(group.predictedRank);
    const auto other = m_measured->stagesOf(group.measuredRank);
    std::vector<int> all;
    std::ranges::set_union(own, other, std::back_inserter(all));
    return all;
}

int TimelineModel::stage(const Group &group) const
{
    for (const bool measured : {false, true}) {
        const auto [first, last] = index(measured).rowsOf(measured ? group.measuredRank : group.predictedRank);
        for (std::size_t k = first; k < last; ++k) {
            const trace::Row &row = lod(measured).rows()[k];
            if (row.size() > 0 && tables(measured).lane(row.lane()).work == trace::Work::Compute)
                return task(measured, row.task(0)).stage;
        }
    }
    return -1;
}

double TimelineModel::predictedIdle(const Group &group) const
{
    const auto rank = static_cast<std::size_t>(group.predictedRank);
    const auto [first, last] = m_predicted->rowsOf(group.predictedRank);
    for (std::size_t k = first; k < last; ++k) {
        const trace::Row &row = lod(false).rows()[k];
        if (row.depth() == 0 && tables(false).lane(row.lane()).work == trace::Work::Compute)
            return rank < m_idle.size() ? m_idle[rank] : idleShare(row, {lod(false).begin(), lod(false).end()});
    }
    return -1;
}

std::vector<trace::KindInfo> TimelineModel::kinds() const
{
    std::vector<trace::KindInfo> all;
    for (const bool measured : {false, true}) {
        const std::vector<trace::KindInfo> &kinds = tables(measured).kinds;
        for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
            if (index(measured).hasKind(kind) && std::ranges::count(all, kinds[kind].name, &trace::KindInfo::name) == 0)
                all.push_back(kinds[kind]);
        }
    }
    return all.empty() ? trace::standardKinds() : all;
}

const trace::TaskInfo &TimelineModel::task(bool measured, std::int32_t index) const
{
    const trace::TaskInfo *task = tables(measured).task(index);
    return task ? *task : kUnknownTask;
}

std::int64_t TimelineModel::begin() const
{
    return hasMeasured() ? std::min(lod(true).begin(), lod(false).begin() + m_offset) : lod(false).begin();
}

std::int64_t TimelineModel::end() const
{
    return hasMeasured() ? std::max(lod(true).end(), lod(false).end() + m_offset) : lod(false).end();
}

} // namespace planloom::ui
