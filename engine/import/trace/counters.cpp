// SPDX-License-Identifier: Apache-2.0
#include "engine/import/trace/counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace planloom::import {

namespace {

constexpr std::int64_t kMostCounterTime = std::int64_t{1} << 61;

struct Scale {
    double least = 0, most = 0;

    [[nodiscard]] double step() const { return (most - least) / (Counters::kLevels - 1); }
    [[nodiscard]] std::int32_t levelOf(double value) const
    {
        return most > least ? static_cast<std::int32_t>(std::lround((value - least) / step())) : 0;
    }
};

std::string laneName(const trace::Tables &tables, const std::string &name)
{
    const bool taken = std::ranges::find(tables.lanes, name, &trace::LaneInfo::name) != tables.lanes.end();
    return taken ? name + " (counter)" : name;
}

} // namespace

void Counters::add(std::int32_t process, std::string_view name, std::int64_t time, double value)
{
    constexpr double kMostValue = 1e300; // differences of two are numbers
    if (!(std::abs(value) <= kMostValue) || time > kMostCounterTime || time < -kMostCounterTime)
        return;
    auto found = m_series.find(name);
    if (found == m_series.end())
        found = m_series.emplace(std::string(name), std::map<std::int32_t, Samples>()).first;
    found->second[process].emplace_back(time, value);
}

bool Counters::has(std::int32_t process) const
{
    return std::ranges::any_of(m_series, [process](const auto &series) { return series.second.contains(process); });
}

std::int64_t Counters::begin() const
{
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    for (const auto &[name, processes] : m_series)
        for (const auto &[process, samples] : processes)
            first = std::min(first, std::ranges::min_element(samples)->first);
    return first;
}

void Counters::addTo(trace::Trace &trace, std::int64_t end)
{
    for (auto &[name, processes] : m_series) {
        Scale scale;
        for (const auto &[process, samples] : processes) {
            for (const auto &[time, value] : samples) {
                scale.least = std::min(scale.least, value);
                scale.most = std::max(scale.most, value);
            }
        }
        const std::string called = laneName(trace, name);
        const auto lane = static_cast<std::int32_t>(trace.lanes.size());
        const auto first = static_cast<std::int32_t>(trace.tasks.size());
        trace.lanes.push_back({called, trace::Work::Device, 1});
        for (int level = 0; level < kLevels; ++level)
            trace.tasks.push_back({fmt::format("{}/{:.4g}", called, scale.least + level * scale.step())});
        for (auto &[process, samples] : processes) {
            std::ranges::stable_sort(samples, {}, [](const auto &sample) { return sample.first; });
            for (std::size_t i = 0; i < samples.size(); ++i) {
                const std::int64_t until = i + 1 < samples.size() ? samples[i + 1].first : end;
                const std::int64_t at = samples[i].first;
                if (at < until)
                    trace.records.push_back(
                        {at, until - at, first + scale.levelOf(samples[i].second), -1, process, lane});
            }
        }
    }
}

} // namespace planloom::import
