// SPDX-License-Identifier: Apache-2.0
#include "engine/analysis/collectives.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace planloom::analysis {
namespace {

using trace::Kind;
using trace::Record;
using trace::Trace;

/// The value of a line "key: value"; empty: there is none.
std::string_view argumentCalled(std::string_view lines, std::string_view key)
{
    while (!lines.empty()) {
        const std::size_t end = std::min(lines.find('\n'), lines.size());
        const std::string_view line = lines.substr(0, end);
        lines.remove_prefix(std::min(end + 1, lines.size()));
        if (line.size() > key.size() + 2 && line.starts_with(key) && line.substr(key.size(), 2) == ": ")
            return line.substr(key.size() + 2);
    }
    return {};
}

/// A record of a collective as its rank tells it.
struct Entry {
    std::uint32_t record = 0;
    std::int64_t sequence = -1; ///< -1: not told
    std::string_view name, size;

    [[nodiscard]] bool agrees(const Entry &other) const { return name == other.name && size == other.size; }
};

/// Entries of one rank in one communicator, by start.
using Sequence = std::vector<Entry>;

std::int64_t endOf(const Trace &trace, const Entry &entry)
{
    const Record &record = trace.records[entry.record];
    return record.start + record.duration;
}

std::int64_t medianOf(std::vector<std::int64_t> values)
{
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
}

/// Entry i + shift of `other` and entry i of `own` are of one collective.
struct Shift {
    std::int64_t by = 0;
    std::int64_t spread = 0; ///< of the differences of their ends: median distance from the median
    std::int64_t apart = 0;  ///< their median
};

/// Nothing: names or sizes disagree, or less than half of the shorter sequence overlaps.
std::optional<Shift> tryShift(const Trace &trace, const Sequence &own, const Sequence &other, std::int64_t by)
{
    const auto first = static_cast<std::size_t>(std::max<std::int64_t>(0, -by));
    std::vector<std::int64_t> apart;
    for (std::size_t i = first; i < own.size(); ++i) {
        const auto j = static_cast<std::size_t>(static_cast<std::int64_t>(i) + by);
        if (j >= other.size())
            break;
        if (!own[i].agrees(other[j]))
            return std::nullopt;
        apart.push_back(endOf(trace, other[j]) - endOf(trace, own[i]));
    }
    if (apart.empty() || 2 * apart.size() < std::min(own.size(), other.size()))
        return std::nullopt;
    const std::int64_t median = medianOf(apart);
    for (std::int64_t &each : apart)
        each = std::abs(each - median);
    return Shift{by, medianOf(std::move(apart)), std::abs(median)};
}

std::optional<Shift> shiftOf(const Trace &trace, const Sequence &own, const Sequence &other)
{
    constexpr std::int64_t kFurther = 4;         // a recording may begin later and end later
    constexpr std::int64_t kMostDifferent = 512; // entries
    const auto longer = static_cast<std::int64_t>(other.size()) - static_cast<std::int64_t>(own.size());
    if (longer == 0)
        if (const auto same = tryShift(trace, own, other, 0))
            return same;
    if (std::abs(longer) > kMostDifferent)
        return std::nullopt;
    std::vector<Shift> shifts;
    for (std::int64_t by = std::min<std::int64_t>(longer, 0) - kFurther;
         by <= std::max<std::int64_t>(longer, 0) + kFurther; ++by) {
        if (const auto shift = tryShift(trace, own, other, by))
            shifts.push_back(*shift);
    }
    if (shifts.empty())
        return std::nullopt;
    // Steps that take equally long look alike: of shifts that fit about equally well that of the nearest times.
    const std::int64_t least = std::ranges::min(shifts, {}, &Shift::spread).spread;
    const std::int64_t enough = least + least / 2 + 1000;
    std::erase_if(shifts, [enough](const Shift &shift) { return shift.spread > enough; });
    return std::ranges::min(shifts, {}, &Shift::apart);
}

class Matcher {
public:
    explicit Matcher(const Trace &trace) : m_trace(trace) {}

    Collectives match()
    {
        collect();
        for (auto &[members, records] : m_groups)
            addGroup(records);
        for (auto &[communicator, byRank] : m_sequences)
            matchSequences(communicator, byRank);
        std::ranges::sort(m_made.all, {}, [this](const Collective &each) { return m_made.last(each).at; });
        return std::move(m_made);
    }

private:
    void collect()
    {
        std::map<std::string, std::int32_t, std::less<>> communicators;
        for (std::uint32_t i = 0; i < m_trace.records.size(); ++i) {
            const Record &record = m_trace.records[i];
            const trace::TaskInfo *task = m_trace.task(record.task);
            if (!task || !isCollective(m_trace, *task))
                continue;
            if (task->group >= 0) {
                m_groups[{record.step, task->group}].push_back(i);
                continue;
            }
            const std::string_view lines = m_trace.details.argumentsOf(i);
            std::string_view name = argumentCalled(lines, "Process Group Ranks");
            if (name.empty())
                name = argumentCalled(lines, "Process Group Name");
            std::int32_t number = -1;
            if (!name.empty()) {
                const auto [at, isNew] =
                    communicators.try_emplace(std::string(name), static_cast<std::int32_t>(communicators.size()));
                number = at->second;
                if (isNew)
                    m_made.communicators.emplace_back(name);
            }
            const std::string_view sequence = argumentCalled(lines, "Collective seq");
            m_sequences[number][record.rank].push_back(
                {i, sequence.empty() ? -1 : std::strtoll(std::string(sequence).c_str(), nullptr, 10), task->id,
                 argumentCalled(lines, "In msg nelems")});
        }
    }

    void matchSequences(std::int32_t communicator, std::map<std::int32_t, Sequence> &byRank)
    {
        std::vector<Sequence *> open;
        bool numbered = true;
        for (auto &[rank, sequence] : byRank) {
            std::ranges::stable_sort(sequence, {},
                                     [this](const Entry &entry) { return m_trace.records[entry.record].start; });
            open.push_back(&sequence);
            numbered = numbered && isNumbered(sequence);
        }
        if (numbered) {
            matchNumbers(communicator, open);
            return;
        }
        std::ranges::stable_sort(open, std::greater(), [](const Sequence *each) { return each->size(); });
        while (!open.empty())
            matchOrder(communicator, open);
    }

    /// Each has a number, and no two the same.
    static bool isNumbered(const Sequence &sequence)
    {
        std::vector<std::int64_t> numbers;
        for (const Entry &entry : sequence)
            numbers.push_back(entry.sequence);
        std::ranges::sort(numbers);
        return numbers.front() >= 0 && std::ranges::adjacent_find(numbers) == numbers.end();
    }

    void matchNumbers(std::int32_t communicator, const std::vector<Sequence *> &sequences)
    {
        std::map<std::int64_t, std::vector<std::uint32_t>> byNumber;
        for (const Sequence *sequence : sequences)
            for (const Entry &entry : *sequence)
                byNumber[entry.sequence].push_back(entry.record);
        for (auto &[number, records] : byNumber)
            add(communicator, records);
    }

    /// Takes the first of @p open, and all that agree with it, out of it.
    void matchOrder(std::int32_t communicator, std::vector<Sequence *> &open)
    {
        const Sequence &reference = *open.front();
        std::vector<std::vector<std::uint32_t>> members(reference.size());
        std::vector<Sequence *> rest;
        for (std::size_t i = 0; i < reference.size(); ++i)
            members[i].push_back(reference[i].record);
        for (std::size_t s = 1; s < open.size(); ++s) {
            const auto shift = shiftOf(m_trace, reference, *open[s]);
            if (!shift) {
                rest.push_back(open[s]);
                continue;
            }
            m_made.byOrder = true;
            for (std::size_t j = 0; j < open[s]->size(); ++j) {
                const auto i = static_cast<std::size_t>(static_cast<std::int64_t>(j) - shift->by);
                if (i < reference.size())
                    members[i].push_back((*open[s])[j].record);
                else
                    ++m_made.unmatched;
            }
        }
        for (auto &records : members)
            add(communicator, records);
        open = std::move(rest);
    }

    /// Records of one step and group: of each rank one is its part, the longest.
    void addGroup(std::vector<std::uint32_t> &records)
    {
        std::map<std::int32_t, std::uint32_t> byRank;
        for (const std::uint32_t record : records) {
            const auto [at, isNew] = byRank.try_emplace(m_trace.records[record].rank, record);
            if (!isNew && m_trace.records[record].duration > m_trace.records[at->second].duration)
                at->second = record;
        }
        std::vector<std::uint32_t> parts;
        for (const auto &[rank, record] : byRank)
            parts.push_back(record);
        add(-1, parts);
    }

    void add(std::int32_t communicator, const std::vector<std::uint32_t> &records)
    {
        if (records.size() < 2) {
            m_made.unmatched += static_cast<std::int64_t>(records.size());
            return;
        }
        Collective made{m_made.arrivals.size(), records.size(), communicator};
        for (const std::uint32_t record : records)
            m_made.arrivals.push_back({record, m_trace.records[record].start, 0});
        const auto members = std::span(m_made.arrivals).subspan(made.first);
        std::ranges::sort(members, {}, [](const Arrival &each) { return std::tuple(each.at, each.record); });
        made.behind = members.back().at - members[members.size() - 2].at;
        for (Arrival &each : members) {
            each.waited = std::min(members.back().at - each.at, m_trace.records[each.record].duration);
            made.waited += each.waited;
        }
        m_made.all.push_back(made);
    }

    const Trace &m_trace;
    Collectives m_made;
    std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::uint32_t>> m_groups; ///< by step and group
    std::map<std::int32_t, std::map<std::int32_t, Sequence>> m_sequences;                 ///< by communicator and rank
};

} // namespace

bool isCollective(const trace::Tables &tables, const trace::TaskInfo &task)
{
    return task.kind != Kind::Send && task.kind != Kind::Receive && task.kind != Kind::CopyIn
        && task.kind != Kind::CopyOut && tables.kind(task.kind).work == trace::Work::Communication
        && tables.kind(task.kind).name != "gpu_memcpy";
}

Collectives matchCollectives(const Trace &trace) { return Matcher(trace).match(); }

} // namespace planloom::analysis
