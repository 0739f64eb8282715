// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/index.h"

#include "engine/trace/rounds.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <functional>
#include <thread>

namespace planloom::trace {
namespace {

bool containsIgnoringCase(std::string_view text, std::string_view lowerCase)
{
    const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
    return std::search(text.begin(), text.end(), lowerCase.begin(), lowerCase.end(), same) != text.end();
}

std::string lowerCase(std::string_view text)
{
    std::string lower(text);
    std::ranges::transform(lower, lower.begin(),
                           [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
    return lower;
}

} // namespace

void Names::reserve(std::size_t texts)
{
    m_texts.reserve(texts);
    if (2 * texts > m_slots.size())
        spread(std::bit_ceil(2 * texts));
}

void Names::spread(std::size_t slots)
{
    m_slots.assign(slots, 0);
    for (std::size_t number = 0; number < m_texts.size(); ++number)
        m_slots[slotOf(m_texts[number])] = static_cast<std::uint32_t>(number) + 1;
}

std::size_t Names::slotOf(std::string_view text) const
{
    std::size_t slot = std::hash<std::string_view>()(text) & (m_slots.size() - 1);
    while (m_slots[slot] != 0 && m_texts[m_slots[slot] - 1] != text)
        slot = (slot + 1) & (m_slots.size() - 1);
    return slot;
}

std::uint32_t Names::add(std::string_view text)
{
    constexpr std::size_t kFewest = 16;
    if (2 * (m_texts.size() + 1) > m_slots.size())
        spread(std::max(kFewest, 2 * m_slots.size()));
    std::uint32_t &number = m_slots[slotOf(text)];
    if (number == 0) {
        m_texts.push_back(text);
        number = static_cast<std::uint32_t>(m_texts.size());
    }
    return number - 1;
}

std::optional<std::uint32_t> Names::find(std::string_view text) const
{
    const std::uint32_t number = m_slots.empty() ? 0 : m_slots[slotOf(text)];
    return number == 0 ? std::nullopt : std::optional(number - 1);
}

Index::Index(std::shared_ptr<const Tables> tables) : m_tables(std::move(tables)), m_homes(m_tables->tasks.size())
{
    nameTasks();
    nameDevices();
}

/// Names and slices are found side by side.
Index::Index(const std::shared_ptr<const Trace> &trace) : m_tables(trace, trace.get()), m_homes(trace->tasks.size())
{
    {
        const std::jthread names([this] { nameTasks(); });
        nameDevices();
        append(trace->records);
        orderMicroBatches();
    }
    orderByRank();
}

void Index::nameDevices()
{
    m_rankOn.reserve(m_tables->ranks.size());
    for (std::size_t r = 0; r < m_tables->ranks.size(); ++r)
        m_rankOn.try_emplace(m_tables->ranks[r].device, static_cast<std::int32_t>(r));
}

void Index::nameTasks()
{
    const auto &tasks = m_tables->tasks;
    m_names.reserve(tasks.size());
    m_nameOf.reserve(tasks.size());
    m_hasKind.resize(m_tables->kinds.size());
    std::vector<std::uint32_t> count;
    std::vector<std::int32_t> *ofMicroBatch = nullptr; // those of the task before, most often the same
    for (std::size_t t = 0; t < tasks.size(); ++t) {
        const std::uint32_t name = m_names.add(tasks[t].id);
        m_nameOf.push_back(name);
        if (name == count.size())
            count.push_back(0);
        ++count[name];
        if (const auto kind = static_cast<std::size_t>(tasks[t].kind); kind < m_hasKind.size())
            m_hasKind[kind] = true;
        if (ofMicroBatch == nullptr || tasks[t].microBatch != tasks[t - 1].microBatch)
            ofMicroBatch = &m_tasksOfMicroBatch[tasks[t].microBatch];
        ofMicroBatch->push_back(static_cast<std::int32_t>(t));
    }
    m_firstTask.assign(count.size() + 1, 0);
    for (std::size_t name = 0; name < count.size(); ++name)
        m_firstTask[name + 1] = m_firstTask[name] + count[name];
    m_tasksByName.resize(tasks.size());
    std::vector<std::uint32_t> next(m_firstTask.begin(), m_firstTask.end() - 1);
    for (std::size_t t = 0; t < tasks.size(); ++t)
        m_tasksByName[next[m_nameOf[t]]++] = static_cast<std::int32_t>(t);
}

void Index::append(std::span<const Record> records)
{
    const std::size_t rowsBefore = m_lod.rows().size();
    m_ordered.clear();
    m_byRank = false;
    m_lod.append(records);
    m_waits.append(*m_tables, records);
    for (const Record &record : records)
        noteRecord(record);
    if (m_lod.rows().size() != rowsBefore)
        findRows();
}

void Index::noteRecord(const Record &record)
{
    addToSteps(record, m_steps);
    const TaskInfo *task = m_tables->task(record.task);
    if (!task)
        return;
    Home &home = m_homes[static_cast<std::size_t>(record.task)];
    if (home.rank >= 0)
        return;
    home = {record.rank, record.lane};
    if (m_tables->lane(record.lane).work == Work::Compute && task->stage >= 0)
        noteStage(record.rank, task->stage);
}

void Index::noteStage(std::int32_t rank, std::int32_t stage)
{
    const auto r = static_cast<std::size_t>(rank);
    if (r >= m_stages.size())
        m_stages.resize(std::max(r + 1, m_tables->ranks.size()));
    auto &stages = m_stages[r];
    const auto place = std::ranges::lower_bound(stages, stage);
    if (place == stages.end() || *place != stage)
        stages.insert(place, stage);
}

void Index::findRows()
{
    const auto &rows = m_lod.rows();
    const std::size_t ranks = rows.empty() ? 0 : static_cast<std::size_t>(rows.back().rank()) + 1;
    m_firstRow.assign(ranks + 1, 0);
    for (const Row &row : rows)
        ++m_firstRow[static_cast<std::size_t>(row.rank()) + 1];
    for (std::size_t r = 1; r < m_firstRow.size(); ++r)
        m_firstRow[r] += m_firstRow[r - 1];
}

std::int32_t Index::rankOn(std::string_view device) const
{
    const auto rank = m_rankOn.find(device);
    return rank == m_rankOn.end() ? -1 : rank->second;
}

std::pair<std::size_t, std::size_t> Index::rowsOf(std::int32_t rank) const
{
    const auto r = static_cast<std::size_t>(rank);
    if (rank < 0 || r + 1 >= m_firstRow.size())
        return {0, 0};
    return {m_firstRow[r], m_firstRow[r + 1]};
}

std::span<const std::int32_t> Index::stagesOf(std::int32_t rank) const
{
    const auto r = static_cast<std::size_t>(rank);
    return rank >= 0 && r < m_stages.size() ? std::span<const std::int32_t>(m_stages[r])
                                            : std::span<const std::int32_t>();
}

std::int32_t Index::rankOf(std::int32_t task) const
{
    return m_tables->task(task) ? m_homes[static_cast<std::size_t>(task)].rank : -1;
}

std::span<const std::int32_t> Index::tasksCalled(std::string_view id) const
{
    const auto name = m_names.find(id);
    if (!name)
        return {};
    const std::uint32_t first = m_firstTask[*name];
    return std::span(m_tasksByName).subspan(first, m_firstTask[*name + 1] - first);
}

/// Tasks without a record first.
void Index::orderByRank()
{
    const auto rank = [this](std::int32_t task) { return m_homes[static_cast<std::size_t>(task)].rank; };
    for (std::size_t name = 0; name + 1 < m_firstTask.size(); ++name) {
        const auto tasks =
            std::span(m_tasksByName).subspan(m_firstTask[name], m_firstTask[name + 1] - m_firstTask[name]);
        if (!std::ranges::is_sorted(tasks, {}, rank))
            std::ranges::stable_sort(tasks, {}, rank);
    }
    m_byRank = true;
}

std::int32_t Index::taskOn(std::int32_t rank, std::string_view id) const
{
    const auto rankOf = [this](std::int32_t task) { return m_homes[static_cast<std::size_t>(task)].rank; };
    const auto tasks = tasksCalled(id);
    const auto found =
        m_byRank ? std::ranges::lower_bound(tasks, rank, {}, rankOf) : std::ranges::find(tasks, rank, rankOf);
    return rank >= 0 && found != tasks.end() && rankOf(*found) == rank ? *found : -1;
}

std::optional<Index::Slice> Index::find(std::int32_t task, std::int32_t step) const
{
    if (rankOf(task) < 0 || (step >= 0 && static_cast<std::size_t>(step) >= m_steps.size()))
        return std::nullopt;
    const Home &home = m_homes[static_cast<std::size_t>(task)];
    const auto [firstRow, lastRow] = rowsOf(home.rank);
    for (std::size_t r = firstRow; r < lastRow; ++r) {
        const Row &row = m_lod.rows()[r];
        if (row.lane() != home.lane)
            continue;
        std::pair<std::uint32_t, std::uint32_t> range{0, static_cast<std::uint32_t>(row.size())};
        if (step >= 0)
            range = row.within(m_steps[static_cast<std::size_t>(step)]);
        for (std::uint32_t i = range.first; i < range.second; ++i) {
            if (row.task(i) == task && (step < 0 || row.step(i) == step))
                return Slice{static_cast<std::uint32_t>(r), i};
        }
    }
    return std::nullopt;
}

std::optional<Index::Slice> Index::sliceOf(const Record &record) const
{
    const auto [firstRow, lastRow] = rowsOf(record.rank);
    for (std::size_t r = firstRow; r < lastRow; ++r) {
        const Row &row = m_lod.rows()[r];
        if (row.lane() != record.lane)
            continue;
        std::size_t first = 0; // that starts with the record, or behind it
        for (std::size_t left = row.size(); left > 0;) {
            const std::size_t half = left / 2;
            const bool isBefore = row.start(first + half) < record.start;
            first += isBefore ? half + 1 : 0;
            left = isBefore ? left - half - 1 : half;
        }
        for (std::size_t i = first; i < row.size() && row.start(i) == record.start; ++i) {
            if (row.record(i) == record)
                return Slice{static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(i)};
        }
    }
    return std::nullopt;
}

std::vector<bool> Index::namesWith(std::string_view text) const
{
    const std::string lower = lowerCase(text);
    std::vector<bool> with;
    with.reserve(m_names.texts().size());
    for (const std::string_view id : m_names.texts())
        with.push_back(containsIgnoringCase(id, lower));
    return with;
}

/// Rows of the lanes that have a task of one of these names; all rows where there are so many that it does not matter.
std::vector<bool> Index::rowsWith(const std::vector<bool> &names) const
{
    const auto &rows = m_lod.rows();
    std::vector<bool> with(rows.size(), false);
    std::size_t tasks = 0;
    for (std::size_t name = 0; name < names.size(); ++name)
        tasks += names[name] ? m_firstTask[name + 1] - m_firstTask[name] : 0;
    if (tasks > m_lod.size() / 8) {
        with.assign(rows.size(), true);
        return with;
    }
    for (std::size_t name = 0; name < names.size(); ++name) {
        for (std::uint32_t at = m_firstTask[name]; names[name] && at < m_firstTask[name + 1]; ++at) {
            const Home &home = m_homes[static_cast<std::size_t>(m_tasksByName[at])];
            const auto [first, last] = rowsOf(home.rank);
            for (std::size_t r = first; r < last; ++r) {
                if (rows[r].lane() == home.lane)
                    with[r] = true;
            }
        }
    }
    return with;
}

std::vector<Index::Slice> Index::search(std::string_view text, std::size_t limit) const
{
    std::vector<Slice> hits;
    if (text.empty())
        return hits;
    const std::vector<bool> wanted = namesWith(text);
    if (std::ranges::find(wanted, true) == wanted.end())
        return hits;
    const std::vector<bool> rows = rowsWith(wanted);
    for (std::size_t r = 0; r < m_lod.rows().size(); ++r) {
        const Row &row = m_lod.rows()[r];
        for (std::uint32_t i = 0; rows[r] && i < row.size(); ++i) {
            const std::int32_t task = row.task(i);
            if (!m_tables->task(task) || !wanted[m_nameOf[static_cast<std::size_t>(task)]])
                continue;
            if (hits.size() == limit)
                return hits;
            hits.push_back({static_cast<std::uint32_t>(r), i});
        }
    }
    return hits;
}

Index::Place Index::placeOf(const Slice &slice) const { return {m_lod.rows()[slice.row].start(slice.index), slice}; }

std::int32_t Index::microBatchOf(const Slice &slice) const
{
    const TaskInfo *task = m_tables->task(m_lod.rows()[slice.row].task(slice.index));
    return task ? task->microBatch : -1;
}

void Index::orderMicroBatches()
{
    if (m_steps.size() != 1)
        return;
    std::unordered_map<std::int32_t, std::vector<Place>> places;
    for (std::uint32_t r = 0; r < m_lod.rows().size(); ++r) {
        for (std::uint32_t i = 0; i < m_lod.rows()[r].size(); ++i)
            places[microBatchOf({r, i})].push_back(placeOf({r, i}));
    }
    for (auto &[microBatch, sorted] : places) {
        std::ranges::sort(sorted);
        auto &ordered = m_ordered[microBatch];
        ordered.reserve(sorted.size());
        for (const Place &place : sorted)
            ordered.push_back(place.slice);
        sorted = {};
    }
}

std::optional<Index::Slice> Index::alongMicroBatch(const Slice &slice, int by) const
{
    const Place from = placeOf(slice);
    const std::int32_t microBatch = microBatchOf(slice);
    if (const auto known = m_ordered.find(microBatch); known != m_ordered.end()) {
        const auto &ordered = known->second;
        const auto here = std::ranges::lower_bound(ordered, from, {}, [this](const Slice &s) { return placeOf(s); });
        const auto at = (here - ordered.begin()) + (by > 0 ? 1 : -1);
        if (at < 0 || at >= static_cast<std::ptrdiff_t>(ordered.size()))
            return std::nullopt;
        return ordered[static_cast<std::size_t>(at)];
    }
    const auto tasks = m_tasksOfMicroBatch.find(microBatch);
    if (tasks == m_tasksOfMicroBatch.end())
        return std::nullopt;
    const std::int32_t step = m_lod.rows()[slice.row].step(slice.index);
    std::optional<Place> best;
    for (const std::int32_t task : tasks->second) {
        const auto other = find(task, step);
        if (!other)
            continue;
        const Place place = placeOf(*other);
        const bool beyond = by > 0 ? place > from : place < from;
        if (beyond && (!best || (by > 0 ? place < *best : place > *best)))
            best = place;
    }
    return best ? std::optional(best->slice) : std::nullopt;
}

} // namespace planloom::trace
