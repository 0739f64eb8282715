// SPDX-License-Identifier: Apache-2.0
#include "profiler/row_times.h"

#include "engine/base/statistics.h"
#include "engine/cost/sparse_rows.h"
#include "executor/runtime/row_packing.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace planloom::profiler {
namespace {

constexpr int kRowSteps = 40;
constexpr int kRowWarmUp = 5; // of them

double secondsBetween(std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end)
{
    return std::chrono::duration<double>(end - begin).count();
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

/// One member's work on ids and rows, with all members' ids of a step and the next.
class RowSteps {
public:
    RowSteps(const program::Table &table, std::int64_t ids)
        : m_zipf(table.rows),
          m_now(table.members.size(), std::vector<std::int64_t>(static_cast<std::size_t>(ids))),
          m_next(m_now),
          m_rows(table.members.size()),
          m_places(static_cast<std::size_t>(ids)),
          m_delays(table.delays),
          m_width(std::max<std::int64_t>(1, table.members.front().width())),
          m_table(static_cast<std::size_t>(table.rows * m_width))
    {
        draw(m_now);
        draw(m_next);
    }

    void advance()
    {
        m_now.swap(m_next);
        draw(m_next);
    }

    /// Which rows each member looks up, which of them some member needs in the next step, and where own ids' rows lie.
    void lookUp()
    {
        for (std::size_t member = 0; member < m_now.size(); ++member) {
            m_rows[member].assign(m_now[member].begin(), m_now[member].end());
            cost::makeUnique(m_rows[member]);
        }
        if (m_delays)
            splitRows();
        std::ranges::transform(m_now.front(), m_places.begin(), [this](std::int64_t id) {
            return std::ranges::lower_bound(m_rows.front(), id) - m_rows.front().begin();
        });
    }

    /// Rows of all members, packed, and unpacked again: two pieces each. Returns the pieces.
    std::int64_t copy()
    {
        std::int64_t rows = 0;
        for (const cost::RowIds &each : m_rows)
            rows += std::ssize(each);
        m_packed.resize(static_cast<std::size_t>(rows * m_width));
        float *to = m_packed.data();
        for (const cost::RowIds &each : m_rows)
            to = runtime::packRows(to, m_table.data(), 0, m_width, each);
        const float *from = m_packed.data();
        for (const cost::RowIds &each : m_rows)
            from = runtime::unpackRows(m_table.data(), from, 0, m_width, each);
        return 2 * rows;
    }

    [[nodiscard]] std::int64_t width() const { return m_width; }

private:
    void draw(std::vector<std::vector<std::int64_t>> &ids)
    {
        for (std::vector<std::int64_t> &each : ids)
            std::ranges::generate(each, [this] { return m_zipf.next(); });
    }

    void splitRows()
    {
        m_nextOfAll.clear();
        for (const std::vector<std::int64_t> &each : m_next) {
            m_unique.assign(each.begin(), each.end());
            cost::makeUnique(m_unique);
            cost::unite(m_nextOfAll, m_unique, m_scratch);
            m_nextOfAll.swap(m_scratch);
        }
        for (const cost::RowIds &each : m_rows)
            cost::split(each, m_nextOfAll, m_prior, m_delayed);
    }

    cost::ZipfIds m_zipf;
    std::vector<std::vector<std::int64_t>> m_now, m_next; ///< per member
    std::vector<cost::RowIds> m_rows;                     ///< per member
    std::vector<std::int64_t> m_places;                   ///< of own ids
    bool m_delays;
    std::int64_t m_width;
    std::vector<float> m_table, m_packed;
    cost::RowIds m_nextOfAll, m_unique, m_scratch, m_prior, m_delayed;
};

} // namespace

void measureRowWork(const program::Program &program, const plan::Optimizer &optimizer, cost::Profile &profile)
{
    const program::Table *table = busiestTable(program);
    if (table == nullptr)
        return;
    const std::int64_t ids = idsOfMember(program, *table);
    const auto members = static_cast<double>(table->members.size());
    const auto rate = profile.extra.find("optimizer_seconds_per_parameter");
    const int streams = optimizer.rule.footprint().streams;
    // A number that is copied is read and written.
    const double perNumber = rate == profile.extra.end() || streams == 0 ? 0 : rate->second * 2 / streams;
    RowSteps steps(*table, ids);
    std::vector<double> perId, perPiece;
    for (int step = 0; step < kRowSteps; ++step) {
        steps.advance();
        const auto begin = std::chrono::steady_clock::now();
        steps.lookUp();
        const auto found = std::chrono::steady_clock::now();
        const auto pieces = static_cast<double>(steps.copy());
        const auto end = std::chrono::steady_clock::now();
        if (step < kRowWarmUp)
            continue;
        perId.push_back(secondsBetween(begin, found) / (static_cast<double>(ids) * (members + 1)));
        perPiece.push_back(secondsBetween(found, end) / pieces - perNumber * static_cast<double>(steps.width()));
    }
    profile.extra[cost::kSecondsPerRowId] = median(std::move(perId));
    profile.extra[cost::kSecondsPerRowPiece] = std::max(0.0, median(std::move(perPiece)));
}

} // namespace planloom::profiler
