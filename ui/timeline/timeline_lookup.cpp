// SPDX-License-Identifier: GPL-3.0-or-later
// The part of TimelineModel that finds slices.
#include "ui/timeline/timeline_model.h"

#include "engine/program/server_rows.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

namespace planloom::ui {

namespace {

const std::string kNoDevice;

TimelineModel::Slice shown(bool measured, const trace::Index::Slice &slice)
{
    return {measured, slice.row, slice.index};
}

trace::Index::Slice stored(const TimelineModel::Slice &slice)
{
    return {static_cast<std::uint32_t>(slice.lod), slice.index};
}

struct AveragingTasks {
    std::int32_t snapshot = -1;
    std::int32_t merge = -1; ///< -1: has no record
};

/// Of steps [first, end): a bucket's snapshots and merges take turns.
void appendAverages(const trace::Index &index, const AveragingTasks &tasks,
                    const std::pair<std::int32_t, std::int32_t> &steps, std::int64_t offset,
                    std::vector<TimelineModel::Average> &averages)
{
    bool open = false; // a snapshot whose merge is still to come
    for (std::int32_t step = steps.first; step < steps.second; ++step) {
        const auto merge = tasks.merge >= 0 ? index.find(tasks.merge, step) : std::nullopt;
        const auto snapshot = index.find(tasks.snapshot, step);
        const auto takeSnapshot = [&] {
            const trace::Record record = index.record(*snapshot);
            averages.push_back({record.start + record.duration + offset, std::nullopt});
            open = true;
        };
        const bool mergesAtOnce = merge && snapshot && index.record(*snapshot).start < index.record(*merge).start;
        if (mergesAtOnce)
            takeSnapshot();
        if (merge && !open)
            averages.emplace_back();
        if (merge)
            averages.back().merge = index.record(*merge).start + offset;
        open = open && !merge;
        if (snapshot && !mergesAtOnce)
            takeSnapshot();
    }
}

} // namespace

std::optional<TimelineModel::Slice> TimelineModel::sliceAt(std::size_t row, double time, double tolerance) const
{
    const Row &at = rows()[row];
    const double own = at.measured ? time : time - static_cast<double>(m_offset);
    const auto index = slices(at).at(std::llround(own), std::llround(tolerance));
    if (!index)
        return std::nullopt;
    return Slice{at.measured, at.lod, *index};
}

trace::Record TimelineModel::record(const Slice &slice) const
{
    trace::Record record = index(slice.measured).record(stored(slice));
    if (!slice.measured)
        record.start += m_offset;
    return record;
}

const trace::TaskInfo &TimelineModel::task(const Slice &slice) const
{
    return task(slice.measured, index(slice.measured).record(stored(slice)).task);
}

const trace::KindInfo &TimelineModel::kind(const Slice &slice) const
{
    return tables(slice.measured).kind(task(slice).kind);
}

const std::string &TimelineModel::device(const Slice &slice) const
{
    const auto &ranks = tables(slice.measured).ranks;
    const auto rank = static_cast<std::size_t>(lod(slice.measured).rows()[slice.lod].rank());
    return rank < ranks.size() ? ranks[rank].device : kNoDevice;
}

std::int64_t TimelineModel::waiting(const Slice &slice) const
{
    const trace::Index &own = index(slice.measured);
    return own.waits().of(own.tables(), own.record(stored(slice)));
}

const TimelineModel::Group *TimelineModel::groupOf(const Slice &slice) const
{
    const auto &groups = m_layout.groupOfRank(slice.measured);
    const auto rank = static_cast<std::size_t>(lod(slice.measured).rows()[slice.lod].rank());
    return rank < groups.size() ? &m_layout.groups()[groups[rank]] : nullptr;
}

/// The first of the anchor, if measured: a task may run in one step of a round only.
std::optional<TimelineModel::Slice> TimelineModel::sliceOf(bool measured, std::int32_t task) const
{
    if (!measured) {
        const auto found = index(false).find(task, -1);
        return found ? std::optional(shown(false, *found)) : std::nullopt;
    }
    std::optional<Slice> found;
    for (std::int32_t step = 0; step < roundSteps() && !found; ++step)
        found = sliceOf(true, task, step);
    return found;
}

std::optional<TimelineModel::Slice> TimelineModel::sliceOf(bool measured, std::int32_t task,
                                                           std::int32_t stepOfRound) const
{
    const auto found = index(measured).find(task, measured ? m_anchor + stepOfRound : stepOfRound);
    return found ? std::optional(shown(measured, *found)) : std::nullopt;
}

std::optional<TimelineModel::Slice> TimelineModel::sliceIn(bool measured, std::int32_t task, std::int32_t step) const
{
    if (step < 0)
        return std::nullopt;
    const auto found = index(measured).find(task, step);
    return found ? std::optional(shown(measured, *found)) : std::nullopt;
}

std::optional<TimelineModel::Slice> TimelineModel::counterpart(const Slice &slice) const
{
    const Group *group = groupOf(slice);
    const std::int32_t rank = !group ? -1 : slice.measured ? group->predictedRank : group->measuredRank;
    if (rank < 0)
        return std::nullopt;
    const trace::Index &other = index(!slice.measured);
    // A prediction has one round, and a part of the next one.
    const std::int32_t step = record(slice).step;
    return sliceOf(!slice.measured, other.taskOn(rank, task(slice).id), slice.measured ? step % roundSteps() : step);
}

std::optional<TimelineModel::Slice> TimelineModel::findAnywhere(bool measured, std::string_view id) const
{
    const trace::Index &own = index(measured);
    const auto &groups = m_layout.groupOfRank(measured);
    std::int32_t best = -1;
    std::uint32_t bestGroup = 0;
    for (const std::int32_t task : own.tasksCalled(id)) {
        const auto rank = static_cast<std::size_t>(own.rankOf(task));
        if (rank < groups.size() && (best < 0 || groups[rank] < bestGroup)) {
            best = task;
            bestGroup = groups[rank];
        }
    }
    return sliceOf(measured, best);
}

std::optional<TimelineModel::Slice> TimelineModel::find(std::string_view taskId, std::string_view device) const
{
    for (const bool measured : {false, true}) {
        const std::int32_t rank = index(measured).rankOn(device);
        std::optional<Slice> found;
        if (device.empty())
            found = findAnywhere(measured, taskId);
        else if (rank >= 0)
            found = sliceOf(measured, index(measured).taskOn(rank, taskId));
        if (found)
            return found;
    }
    return std::nullopt;
}

std::optional<TimelineModel::Slice> TimelineModel::onRow(const Slice &slice, int by) const
{
    const auto size = static_cast<std::int64_t>(lod(slice.measured).rows()[slice.lod].size());
    const std::int64_t index = static_cast<std::int64_t>(slice.index) + by;
    if (index < 0 || index >= size)
        return std::nullopt;
    return Slice{slice.measured, slice.lod, static_cast<std::uint32_t>(index)};
}

std::optional<TimelineModel::Slice> TimelineModel::alongMicroBatch(const Slice &slice, int by) const
{
    const auto next = index(slice.measured).alongMicroBatch(stored(slice), by);
    return next ? std::optional(shown(slice.measured, *next)) : std::nullopt;
}

std::vector<TimelineModel::Slice> TimelineModel::search(std::string_view text, std::size_t limit) const
{
    std::vector<std::pair<std::int64_t, Slice>> found; // by start, as shown
    for (const bool measured : {false, true}) {
        const std::int64_t offset = measured ? 0 : m_offset;
        for (const trace::Index::Slice &hit : index(measured).search(text, limit - found.size()))
            found.emplace_back(lod(measured).rows()[hit.row].start(hit.index) + offset, shown(measured, hit));
    }
    std::ranges::stable_sort(found, {}, &std::pair<std::int64_t, Slice>::first);
    std::vector<Slice> hits;
    hits.reserve(found.size());
    for (const auto &entry : found)
        hits.push_back(entry.second);
    return hits;
}

TimelineModel::Totals TimelineModel::totals(trace::Window window, bool measured, Range rows) const
{
    if (!measured) {
        window.begin -= m_offset;
        window.end -= m_offset;
    }
    Totals totals;
    for (std::size_t r = rows.first; r < rows.second; ++r) {
        const Row &row = this->rows()[r];
        if (row.measured != measured || gauge(row) != nullptr)
            continue;
        const auto [first, last] = slices(row).within(window);
        if (first == last)
            continue;
        const trace::Bar bar = slices(row).summary(first, last);
        totals.count += bar.count;
        totals.busy += bar.busy;
    }
    return totals;
}

std::vector<TimelineModel::Average> TimelineModel::averages(const Row &row, trace::Window window) const
{
    const std::vector<std::int32_t> &snapshots = m_snapshots[row.measured ? 1 : 0];
    if (!row.computes || snapshots.empty())
        return {};
    const trace::Index &shown = index(row.measured);
    const std::int64_t offset = row.measured ? 0 : m_offset;
    const Group &group = groups()[row.group];
    const std::int32_t rank = row.measured ? group.measuredRank : group.predictedRank;
    const auto overlaps = [&](const trace::Window &step) {
        return step.begin <= step.end && step.begin + offset <= window.end && step.end + offset >= window.begin;
    };
    const std::vector<trace::Window> &steps = shown.steps();
    const auto first = std::find_if(steps.begin(), steps.end(), overlaps);
    const auto last = std::find_if(steps.rbegin(), std::make_reverse_iterator(first), overlaps).base();
    constexpr std::ptrdiff_t kMostSteps = 200;
    if (last - first > kMostSteps)
        return {};
    const auto round = static_cast<std::int32_t>(shown.tables().rounds.steps);
    const auto firstStep = std::max(0, static_cast<std::int32_t>(first - steps.begin()) - round);
    const auto endStep = static_cast<std::int32_t>(std::min(last - steps.begin() + round, std::ssize(steps)));
    std::vector<Average> found;
    for (const std::int32_t snapshot : snapshots) {
        std::string id = shown.tables().task(snapshot)->id; // "s0.SN.b1" and "s0.M.b1"
        const std::size_t kind = id.find(".SN.");
        if (shown.rankOf(snapshot) != rank || kind == std::string::npos)
            continue;
        id.replace(kind, 4, ".M.");
        appendAverages(shown, {snapshot, shown.taskOn(rank, id)}, {firstStep, endStep}, offset, found);
    }
    return found;
}

std::vector<TimelineModel::StepBegin> TimelineModel::stepBegins(trace::Window window) const
{
    constexpr std::size_t kMost = 500; // lines that are told apart
    const std::vector<trace::Window> &steps = index(hasMeasured()).steps();
    const std::int64_t offset = hasMeasured() ? 0 : m_offset;
    std::vector<StepBegin> begins;
    for (std::size_t s = 0; steps.size() > 1 && s < steps.size(); ++s) {
        const bool recorded = steps[s].begin <= steps[s].end;
        if (!recorded || steps[s].begin + offset < window.begin || steps[s].begin + offset > window.end)
            continue;
        if (begins.size() == kMost)
            return {};
        begins.push_back({static_cast<std::int64_t>(s), steps[s].begin + offset});
    }
    return begins;
}

std::int32_t TimelineModel::server(bool measured) const
{
    const trace::Index &shown = index(measured);
    const auto solves = shown.tasksCalled("S");
    const std::int32_t rank = solves.size() == 1 ? shown.rankOf(solves.front()) : -1;
    return rank >= 0 && shown.taskOn(rank, "w0") >= 0 ? rank : -1; // else a task of another program that is called so
}

std::optional<std::vector<std::int64_t>> TimelineModel::versions(bool measured, trace::Window window,
                                                                 std::size_t most) const
{
    const trace::Index &shown = index(measured);
    const std::int32_t rank = server(measured);
    if (rank < 0)
        return std::vector<std::int64_t>();
    const std::int64_t offset = measured ? 0 : m_offset;
    std::vector<std::int64_t> ends;
    const auto [begin, end] = shown.rowsOf(rank);
    for (std::size_t r = begin; r < end; ++r) {
        const trace::Row &row = shown.lod().rows()[r];
        if (row.lane() != program::ServerRows::kSolves)
            continue;
        const auto [first, last] = row.within({window.begin - offset, window.end - offset});
        if (last - first + ends.size() > most)
            return std::nullopt;
        for (std::uint32_t slice = first; slice < last; ++slice) {
            const trace::Record record = row.record(slice);
            ends.push_back(record.start + record.duration + offset);
        }
    }
    return ends;
}

std::optional<std::size_t> TimelineModel::numberInFile(const Slice &slice) const
{
    if (!slice.measured || !m_file || m_file->details.empty())
        return std::nullopt;
    return m_file->numberOf(record(slice));
}

TimelineModel::Related TimelineModel::related(const Slice &slice, std::size_t most) const
{
    Related found;
    const auto number = numberInFile(slice);
    if (!number)
        return found;
    const trace::Details &details = m_file->details;
    const auto add = [&](std::vector<Slice> &slices, std::span<const std::uint32_t> records) {
        for (const std::uint32_t other : records) {
            if (other == *number || slices.size() >= most)
                continue;
            if (const auto at = index(true).sliceOf(m_file->records[other]))
                slices.push_back(shown(true, *at));
        }
    };
    if (!details.launches.isCaller(*number))
        add(found.callers, details.launches.callers(*number));
    if (const auto caller = details.operatorOf(*number); caller && found.callers.empty()) {
        const std::uint32_t only[] = {static_cast<std::uint32_t>(*caller)};
        add(found.callers, only);
    }
    if (details.launches.isCaller(*number))
        add(found.caused, details.launches.caused(*number));
    else if (details.operators.isCaller(*number))
        add(found.caused, details.operators.caused(*number));
    return found;
}

bool TimelineModel::knowsCauses(const Slice &slice) const
{
    return causes(slice.measured) != nullptr || numberInFile(slice).has_value();
}

std::string_view TimelineModel::arguments(const Slice &slice) const
{
    const auto number = numberInFile(slice);
    return number ? m_file->details.argumentsOf(*number) : std::string_view();
}

} // namespace planloom::ui
