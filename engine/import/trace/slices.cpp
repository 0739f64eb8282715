// SPDX-License-Identifier: Apache-2.0
#include "engine/import/trace/slices.h"

#include "engine/import/trace/collected_slices.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace planloom::import {

namespace {

constexpr std::int64_t kMostStart = std::int64_t{1} << 61;    // 73 years around 1970
constexpr std::int64_t kMostDuration = std::int64_t{1} << 60; // so that the sums of both fit in 64 bits
constexpr std::size_t kMostArgumentBytes = 64 << 20;          // of texts that are kept
constexpr std::size_t kLongestArguments = 4096;               // bytes of one

std::int32_t small(std::int64_t value)
{
    return value >= 0 && value <= std::numeric_limits<std::int32_t>::max() ? static_cast<std::int32_t>(value) : -1;
}

} // namespace

std::int32_t stepInName(std::string_view name)
{
    static constexpr std::array<std::string_view, 3> kWords{"step", "iteration", "iter"};
    const auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
    const auto isSign = [](char c) { return c == ' ' || c == '_' || c == '#' || c == ':' || c == '=' || c == '-'; };
    std::size_t digits = name.size();
    while (digits > 0 && isDigit(name[digits - 1]))
        --digits;
    std::int32_t step = -1;
    const auto read = std::from_chars(name.data() + digits, name.data() + name.size(), step);
    if (digits == name.size() || read.ec != std::errc())
        return -1;
    std::string before(name.substr(0, digits));
    while (!before.empty() && isSign(before.back()))
        before.pop_back();
    std::transform(before.begin(), before.end(), before.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    const auto word = std::find_if(kWords.begin(), kWords.end(), [&](auto w) { return before.ends_with(w); });
    if (word == kWords.end())
        return -1;
    before.resize(before.size() - word->size());
    while (!before.empty() && isSign(before.back()))
        before.pop_back();
    const bool known = before.empty() || before == "profiler" || before == "train" || before == "training";
    return known ? step : -1;
}

struct SliceCollector::Data : CollectedSlices {
    std::size_t argumentBytes = 0;
    std::int64_t argumentsLeftOut = 0; ///< slices

    CollectedProcess &process(std::string_view key)
    {
        const auto number = static_cast<std::size_t>(processNames.of(key));
        if (number == processes.size())
            processes.emplace_back();
        return processes[number];
    }

    std::int32_t thread(std::string_view processKey, std::string_view key)
    {
        CollectedProcess &owner = process(processKey);
        const auto [at, isNew] =
            owner.threads.try_emplace(threadNames.of(key), static_cast<std::int32_t>(threads.size()));
        if (isNew)
            threads.push_back({static_cast<std::int32_t>(&owner - processes.data()), std::string(key), {}, {}});
        return at->second;
    }

    std::int32_t label(const Slice &slice)
    {
        const CollectedLabel wanted{sliceNames.of(slice.name), kinds.of(slice.category, slice.name), small(slice.stage),
                                    small(slice.microBatch), slice.category == "kernel" ? -1 : stepInName(slice.name)};
        const auto name = static_cast<std::size_t>(wanted.name);
        if (name == labelsOfName.size())
            labelsOfName.emplace_back();
        for (const std::int32_t known : labelsOfName[name]) {
            if (labels[static_cast<std::size_t>(known)] == wanted)
                return known;
        }
        labelsOfName[name].push_back(static_cast<std::int32_t>(labels.size()));
        labels.push_back(wanted);
        return labelsOfName[name].back();
    }

    trace::Record record(const Slice &slice)
    {
        const std::int32_t lane = thread(slice.process, slice.thread);
        return {slice.start,
                slice.duration,
                label(slice),
                small(slice.step),
                threads[static_cast<std::size_t>(lane)].process,
                lane};
    }

    SliceExtra extra(const Slice &slice)
    {
        return {slice.correlation, slice.external, argumentRow(slice.arguments), slice.isLaunch, slice.isOperator};
    }

    /// Equal texts are kept once.
    std::uint32_t argumentRow(std::string_view text)
    {
        if (text.empty())
            return 0;
        text = text.substr(0, kLongestArguments);
        if (argumentTexts.size() == 0)
            argumentTexts.of({}); // row 0
        if (argumentBytes + text.size() > kMostArgumentBytes && !argumentTexts.has(text)) {
            ++argumentsLeftOut;
            return 0;
        }
        const std::size_t before = argumentTexts.size();
        const std::int32_t row = argumentTexts.of(text);
        argumentBytes += argumentTexts.size() > before ? text.size() : 0;
        return static_cast<std::uint32_t>(row);
    }

    bool keep(const trace::Record &record, const SliceExtra &extra)
    {
        if (record.start > kMostStart || record.start < -kMostStart || record.duration > kMostDuration
            || record.duration < 0 || records.size() >= static_cast<std::size_t>(std::numeric_limits<int>::max()))
            return false;
        noteStep(record);
        if (extras.empty() && !extra.isNone())
            extras.resize(records.size());
        if (!extras.empty() || !extra.isNone())
            extras.push_back(extra);
        records.push_back(record);
        return true;
    }

    void noteStep(const trace::Record &record)
    {
        const std::int32_t step = labels[static_cast<std::size_t>(record.task)].step;
        if (step >= 0)
            processes[static_cast<std::size_t>(record.rank)].steps.emplace_back(record.start, step);
    }
};

SliceCollector::SliceCollector() : m_data(std::make_unique<Data>()) {}
SliceCollector::SliceCollector(SliceCollector &&) noexcept = default;
SliceCollector::~SliceCollector() = default;

bool SliceCollector::add(const Slice &slice) { return m_data->keep(m_data->record(slice), m_data->extra(slice)); }

void SliceCollector::begin(const Slice &slice)
{
    const trace::Record record = m_data->record(slice);
    m_data->threads[static_cast<std::size_t>(record.lane)].open.push_back({record, m_data->extra(slice)});
}

bool SliceCollector::end(std::string_view process, std::string_view thread, std::int64_t time)
{
    auto &open = m_data->threads[static_cast<std::size_t>(m_data->thread(process, thread))].open;
    if (open.empty())
        return false;
    auto [record, extra] = open.back();
    open.pop_back();
    if (time < record.start || time > kMostStart || record.start < -kMostStart)
        return false;
    record.duration = time - record.start;
    return m_data->keep(record, extra);
}

void SliceCollector::count(std::string_view process, std::string_view counter, std::int64_t time, double value)
{
    const CollectedProcess &owner = m_data->process(process);
    m_data->counters.add(static_cast<std::int32_t>(&owner - m_data->processes.data()), counter, time, value);
}

std::int64_t SliceCollector::openSlices() const
{
    return std::accumulate(m_data->threads.begin(), m_data->threads.end(), std::int64_t{0},
                           [](std::int64_t sum, const CollectedThread &thread) {
                               return sum + static_cast<std::int64_t>(thread.open.size());
                           });
}

void SliceCollector::nameProcess(std::string_view process, std::string_view name)
{
    m_data->process(process).name = name;
}

void SliceCollector::labelProcess(std::string_view process, std::string_view label)
{
    m_data->process(process).label = label;
}

void SliceCollector::orderProcess(std::string_view process, std::int64_t order)
{
    m_data->process(process).order = order;
}

void SliceCollector::nameThread(std::string_view process, std::string_view thread, std::string_view name)
{
    m_data->threads[static_cast<std::size_t>(m_data->thread(process, thread))].name = name;
}

void SliceCollector::setClock(std::string clock) { m_data->clock = std::move(clock); }

void SliceCollector::setDropped(std::int64_t count) { m_data->dropped = count; }

std::int64_t SliceCollector::argumentsLeftOut() const { return m_data->argumentsLeftOut; }

trace::Trace SliceCollector::finish(std::int64_t *origin)
{
    std::int64_t first = 0;
    trace::Trace trace = buildTrace(*m_data, first);
    if (origin)
        *origin = first;
    m_data = std::make_unique<Data>();
    return trace;
}

} // namespace planloom::import
