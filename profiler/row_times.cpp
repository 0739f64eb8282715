// SPDX-License-Identifier: Apache-2.0
#include "profiler/row_times.h"

#include "engine/base/statistics.h"
#include "engine/cost/row_marks.h"
#include "executor/runtime/row_packing.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace planloom::profiler {
namespace {

constexpr int kRowSteps = 40;
constexpr int kRowWarmUp = 5; // of them

template <class Work>
double secondsOfWork(const Work &work)
{
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Ids that a member looks up in a step.
std::int64_t idsOfMember(const program::Program &program, const program::Table &table)
{
    const auto members = static_cast<std::int64_t>(table.members.size());
    return (program.globalBatch + members - 1) / members * table.idsPerSample;
}

const program::Table *busiestTable(const program::Program &program)
{
    const auto found = std::ranges::max_element(program.tables, {}, [&](const program::Table &table) {
        return idsOfMember(program, table);
    });
    return found == program.tables.end() ? nullptr : &*found;
}

/// One member's work on ids and rows, with all members' ids of a step and the next, as runtime::RowExchange does it.
class RowSteps {
public:
    RowSteps(const program::Table &table, std::int64_t ids)
        : m_zipf(table.rows),
          m_now(table.members.size(), std::vector<std::int64_t>(static_cast<std::size_t>(ids))),
          m_next(m_now),
          m_rows(table.members.size()),
          m_nextRows(m_rows),
          m_marks(table.rows),
          m_inWindow(table.rows),
          m_places(static_cast<std::size_t>(ids)),
          m_delays(table.delays),
          m_table(static_cast<std::size_t>(table.rows * table.columns))
    {
        draw(m_now);
        draw(m_next);
    }

    void advance()
    {
        m_now.swap(m_next);
        m_rows.swap(m_nextRows);
        draw(m_next);
    }

    /// Which rows each member looks up in the next step, which of this one's are among them, and where own ids' rows
    /// lie.
    void lookUp()
    {
        for (std::size_t member = 0; member < m_next.size(); ++member) {
            m_marks.mark(m_next[member]);
            m_nextRows[member].clear();
            m_marks.append(m_nextRows[member]);
            m_marks.clear();
        }
        if (m_delays)
            splitRows();
        m_inWindow.clear();
        m_inWindow.mark(m_rows.front());
        m_inWindow.countPlaces();
        std::ranges::transform(m_now.front(), m_places.begin(),
                               [this](std::int64_t id) { return m_inWindow.placeOf(id); });
    }

    /// Rows of all members with @p width columns, packed, and unpacked again: two pieces each. Returns the pieces.
    std::int64_t copy(std::int64_t width)
    {
        std::int64_t rows = 0;
        for (const cost::RowIds &each : m_rows)
            rows += std::ssize(each);
        m_packed.resize(static_cast<std::size_t>(rows * width));
        float *to = m_packed.data();
        for (const cost::RowIds &each : m_rows)
            to = runtime::packRows(to, m_table.data(), 0, width, each);
        const float *from = m_packed.data();
        for (const cost::RowIds &each : m_rows)
            from = runtime::unpackRows(m_table.data(), from, 0, width, each);
        return 2 * rows;
    }

    /// Rows of all members with @p width columns, as they were packed last, added up. Returns the rows.
    std::int64_t add(std::int64_t width)
    {
        for (const cost::RowIds &each : m_rows)
            m_marks.mark(each);
        m_all.clear();
        m_marks.append(m_all);
        m_marks.clear();
        m_sums.assign(m_all.size() * static_cast<std::size_t>(width), 0.0F);
        const float *from = m_packed.data();
        for (const cost::RowIds &each : m_rows)
            from = runtime::addRows(m_sums.data(), m_all, width, from, each);
        return (from - m_packed.data()) / width;
    }

private:
    void draw(std::vector<std::vector<std::int64_t>> &ids)
    {
        for (std::vector<std::int64_t> &each : ids)
            std::ranges::generate(each, [this] { return m_zipf.next(); });
    }

    void splitRows()
    {
        for (const cost::RowIds &each : m_nextRows)
            m_marks.mark(each);
        m_prior.clear();
        m_delayed.clear();
        for (const cost::RowIds &each : m_rows)
            m_marks.split(each, m_prior, m_delayed);
        m_marks.clear();
    }

    cost::ZipfIds m_zipf;
    std::vector<std::vector<std::int64_t>> m_now, m_next; ///< per member
    std::vector<cost::RowIds> m_rows, m_nextRows;         ///< per member
    cost::RowMarks m_marks, m_inWindow;
    std::vector<std::int64_t> m_places; ///< of own ids
    bool m_delays;
    std::vector<float> m_table, m_packed, m_sums;
    cost::RowIds m_prior, m_delayed, m_all;
};

/// Seconds of a row, and of each of its numbers, from those of a narrow and a wide one.
struct RowSeconds {
    double row = 0;
    double number = 0;
};

/// Seconds of rows of some columns, and of all, step by step.
class Rows {
public:
    void add(double narrow, double wide)
    {
        m_narrow.push_back(narrow);
        m_wide.push_back(wide);
    }
    [[nodiscard]] RowSeconds of(std::int64_t narrowColumns, std::int64_t columns) const
    {
        const double narrow = median(m_narrow);
        const auto few = static_cast<double>(narrowColumns);
        const double more = static_cast<double>(columns) - few;
        const double number = more > 0 ? std::max(0.0, median(m_wide) - narrow) / more : narrow / few;
        return {std::max(0.0, narrow - number * few), number};
    }

private:
    std::vector<double> m_narrow, m_wide;
};

} // namespace

void measureRowWork(const program::Program &program, cost::Profile &profile)
{
    const program::Table *table = busiestTable(program);
    if (table == nullptr)
        return;
    const std::int64_t ids = idsOfMember(program, *table);
    const std::int64_t narrow = std::max<std::int64_t>(1, table->columns / std::ssize(table->members));
    RowSteps steps(*table, ids);
    std::vector<double> lookUps;
    Rows copied, added;
    for (int step = 0; step < kRowSteps; ++step) {
        steps.advance();
        const double lookUp = secondsOfWork([&] { steps.lookUp(); });
        double seconds[2][2]{}; // per width, of a piece that is copied and of a row that is added
        for (const bool wide : {false, true}) {
            const std::int64_t width = wide ? table->columns : narrow;
            std::int64_t pieces = 0, rows = 0;
            const double copying = secondsOfWork([&] { pieces = steps.copy(width); });
            const double adding = secondsOfWork([&] { rows = steps.add(width); });
            seconds[wide][0] = copying / static_cast<double>(std::max<std::int64_t>(1, pieces));
            seconds[wide][1] = adding / static_cast<double>(std::max<std::int64_t>(1, rows));
        }
        if (step < kRowWarmUp)
            continue;
        lookUps.push_back(lookUp);
        copied.add(seconds[0][0], seconds[1][0]);
        added.add(seconds[0][1], seconds[1][1]);
    }
    const RowSeconds copy = copied.of(narrow, table->columns), add = added.of(narrow, table->columns);
    profile.extra[cost::kSecondsPerRowId] =
        median(std::move(lookUps)) / static_cast<double>(ids * (std::ssize(table->members) + 1));
    profile.extra[cost::kSecondsPerRowPiece] = copy.row;
    profile.extra[cost::kSecondsPerRowNumber] = copy.number;
    profile.extra[cost::kSecondsPerAddedRow] = add.row;
    profile.extra[cost::kSecondsPerAddedNumber] = add.number;
}

} // namespace planloom::profiler
