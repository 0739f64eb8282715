// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_path.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace planloom::ui {

/// Those in @p window of tasks that have causes, by rank, lane and start: the rows are sorted so, but for lanes with
/// slices that overlap.
PathRequest::Shown PathRequest::recordsIn(trace::Window window) const
{
    Shown found;
    const auto &rows = m_index->lod().rows();
    const auto key = [](const trace::Record &record) { return std::tuple(record.rank, record.lane, record.start); };
    bool sorted = true;
    for (std::size_t r = 0; r < rows.size(); ++r) {
        const auto [first, last] = rows[r].within(window);
        for (std::uint32_t i = first; i < last; ++i) {
            if (!m_simulation->causes.has(rows[r].task(i)))
                continue;
            const trace::Record record = rows[r].record(i);
            sorted = sorted && (found.records.empty() || key(found.records.back()) <= key(record));
            found.records.push_back(record);
            found.slices.push_back({m_measured, r, i});
        }
    }
    if (sorted)
        return found;
    std::vector<std::uint32_t> order(found.records.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return key(found.records[i]); });
    Shown again;
    for (const std::uint32_t i : order) {
        again.records.push_back(found.records[i]);
        again.slices.push_back(found.slices[i]);
    }
    return again;
}

Result<PathRequest> PathRequest::of(const TimelineModel &model, bool measured)
{
    if (model.causes(measured) == nullptr)
        return notFound("the trace does not say what its tasks waited for; open the plan that made it");
    PathRequest request;
    request.m_measured = measured;
    request.m_index = model.tracePointer(measured);
    request.m_simulation = model.simulation();
    if (!measured) {
        const trace::Rounds &rounds = model.tables(false).rounds;
        request.m_steps = {0, std::max(rounds.steps, 1), rounds.overlap, rounds.overlap};
        request.m_offset = model.offset();
        return request;
    }
    if (!model.hasStep(model.anchorStep()))
        return notFound("there are no records of the step; choose another step");
    const trace::Round round = model.round(model.anchorStep());
    request.m_steps = {static_cast<std::int32_t>(round.first), round.steps, model.tables(true).rounds.overlap, false};
    request.m_shown = request.recordsIn({round.window.begin, round.window.end + 1}); // with what starts at its end
    return request;
}

Result<TimelinePath> PathRequest::answer() const
{
    const trace::Tables &tables = m_index->tables();
    const Shown predicted = m_measured ? Shown() : recordsIn({m_index->lod().begin(), m_index->lod().end() + 1});
    const Shown &shown = m_measured ? m_shown : predicted;
    const auto found = simulate::criticalPath(tables, m_simulation->causes, shown.records, m_steps);
    if (!found)
        return found.error();
    TimelinePath path;
    path.measured = m_measured;
    path.steps = m_steps.count;
    path.length = found->window.end - found->window.begin;
    path.waits = found->waits();
    path.pieces.reserve(found->pieces.size());
    for (const simulate::CriticalPath::Piece &piece : found->pieces)
        path.pieces.push_back(
            {shown.slices[piece.record], piece.begin + m_offset, piece.end + m_offset, piece.earlier});
    for (const auto &sum : found->sums(tables, shown.records))
        path.sums.push_back({tables.kind(sum.kind).name, sum.nanoseconds, sum.count});
    return path;
}

} // namespace planloom::ui
