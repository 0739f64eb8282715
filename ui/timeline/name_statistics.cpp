// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/name_statistics.h"

#include <algorithm>
#include <string_view>

namespace planloom::ui {

bool NameStatistics::add(std::size_t slices)
{
    const auto &predicted = m_model->traceIndex(false).lod().rows();
    const auto &measured = m_model->traceIndex(true).lod().rows();
    const std::size_t all = predicted.size() + measured.size();
    std::size_t added = 0;
    for (; m_next < all && added < slices; ++m_next) {
        const bool second = m_next >= predicted.size();
        added += addRow(second, second ? measured[m_next - predicted.size()] : predicted[m_next]);
    }
    if (m_next < all)
        return false;
    if (m_entries.empty())
        finish();
    return true;
}

std::size_t NameStatistics::addRow(bool measured, const trace::Row &row)
{
    if (m_model->gauge({.measured = measured, .lane = row.lane()}) != nullptr)
        return 0;
    const std::int64_t offset = measured ? 0 : m_model->offset();
    const trace::Window window{m_window.begin - offset, m_window.end - offset};
    const auto [first, last] = row.within(window);
    for (std::uint32_t i = first; i < last; ++i) {
        const trace::Record record = row.record(i);
        const trace::TaskInfo &task = m_model->task(measured, record.task);
        const auto key = std::tuple<bool, std::int32_t, std::string_view>(measured, row.lane(), task.id);
        auto found = m_sums.find(key);
        if (found == m_sums.end())
            found = m_sums.emplace(std::tuple(measured, row.lane(), task.id), Sums{.least = record.duration}).first;
        Sums &sums = found->second;
        sums.kind = task.kind;
        ++sums.count;
        sums.sum += record.duration;
        sums.busy += std::max<std::int64_t>(
            std::min(record.start + record.duration, window.end) - std::max(record.start, window.begin), 0);
        sums.least = std::min(sums.least, record.duration);
        sums.most = std::max(sums.most, record.duration);
    }
    return last - first;
}

void NameStatistics::finish()
{
    std::map<std::pair<bool, std::int32_t>, std::int64_t> ofLane;
    for (const auto &[key, sums] : m_sums)
        ofLane[{std::get<0>(key), std::get<1>(key)}] += sums.busy;
    for (const auto &[key, sums] : m_sums) {
        const auto &[measured, lane, name] = key;
        const auto all = static_cast<double>(std::max<std::int64_t>(ofLane[{measured, lane}], 1));
        m_entries.push_back({measured, m_model->tables(measured).lane(lane).name, name, sums.kind, sums.count,
                             sums.busy, static_cast<double>(sums.busy) / all, sums.sum, sums.least, sums.most});
    }
    std::ranges::stable_sort(m_entries, [](const Entry &a, const Entry &b) {
        return std::tie(a.measured, a.lane, b.busy) < std::tie(b.measured, b.lane, a.busy);
    });
}

} // namespace planloom::ui
