// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/row_tasks.h"

#include "engine/cost/looked_up_rows.h"
#include "engine/cost/sparse_rows.h"

#include <algorithm>
#include <cmath>

namespace planloom::compile {

using program::RowPart;
using program::RowWork;

namespace {

constexpr int kFloat = 4; // bytes

// Of a processor core that no profile has measured, by estimate: an id is read and put among others; a piece is a
// member's columns of a row, found and copied. A GPU's kernels would do both at the speed of its memory.
constexpr double kSecondsPerId = 10e-9;
constexpr double kSecondsPerPiece = 20e-9;

std::int64_t whole(double bytes) { return std::llround(bytes); }

} // namespace

RowTimes::RowTimes(const Source &source, TaskTimes &times, const program::Table &table, const Team &team,
                   const StageInstance &instance)
    : m_times(times),
      m_table(table),
      m_instance(instance),
      m_states(source.plan.optimizer.rule.footprint().states),
      m_streams(source.plan.optimizer.rule.footprint().streams)
{
    const auto members = static_cast<std::int64_t>(team.size());
    const std::int64_t ids = (source.plan.globalBatch + members - 1) / members * table.idsPerSample;
    m_ids = static_cast<double>(ids);
    const cost::TableRows rows =
        cost::lookedUpRows(source.subject.costs->profile().get(), table.parameter, table.rows, ids, members);
    const DeviceId device = source.plan.stages[instance.stage.index()].devices[instance.device];
    const bool onProcessor = source.subject.cluster->typeOf(device).isProcessor();
    m_at = team.position(instance.rank);
    const cost::CostModel &costs = *source.subject.costs;
    m_perId = Seconds(onProcessor ? costs.fact(cost::kSecondsPerRowId, kSecondsPerId) : 0);
    m_perPiece = Seconds(onProcessor ? costs.fact(cost::kSecondsPerRowPiece, kSecondsPerPiece) : 0);
    m_perNumber = Seconds(onProcessor ? costs.fact(cost::kSecondsPerRowNumber, -1) : -1);
    m_perAddedRow = Seconds(onProcessor ? costs.fact(cost::kSecondsPerAddedRow, 0) : 0);
    m_perAddedNumber = Seconds(onProcessor ? costs.fact(cost::kSecondsPerAddedNumber, -1) : -1);
    for (const program::Table::Member &member : table.members) {
        MemberRows held{rows.unique, rows.prior, rows.all, member.width()};
        if (member.rows() < table.rows) { // by Zipf's law the first rows are looked up most
            const auto share = [&](std::int64_t of, int workers, auto which) {
                const cost::ExpectedRows part =
                    cost::expectedRows(table.rows, of, workers, member.firstRow, member.endRow);
                return which(part) / which(cost::expectedRows(table.rows, of, workers));
            };
            const auto unique = [](const cost::ExpectedRows &of) { return of.unique; };
            held.unique *= share(ids, 1, unique);
            held.prior *= share(ids, static_cast<int>(members), [](const cost::ExpectedRows &of) { return of.prior; });
            held.updated *= share(ids * members, 1, unique);
        }
        m_rows.push_back(held);
    }
}

double RowTimes::numbers() const
{
    double sum = 0;
    for (const MemberRows &held : m_rows)
        sum += held.unique * static_cast<double>(held.width);
    return sum;
}

double RowTimes::pieces() const
{
    double sum = 0;
    for (const MemberRows &held : m_rows)
        sum += held.unique;
    return sum;
}

/// Every rank works out which rows each member looks up in the next step, and where its own ids' rows lie.
Seconds RowTimes::ofIds() const
{
    const auto members = static_cast<double>(m_table.members.size());
    return m_perId * (m_ids * (members + 1));
}

Seconds RowTimes::ofPieces(double count) const { return m_perPiece * count; }

/// Read and written, from rows or to rows that lie anywhere in the table.
Seconds RowTimes::ofCopies(double numbers) const
{
    return m_perNumber >= Seconds(0) ? m_perNumber * numbers : m_times.streams(m_instance, whole(kFloat * numbers), 2);
}

/// Of rows that came in.
Seconds RowTimes::ofAdditions(double rows, double width) const
{
    if (m_perAddedNumber >= Seconds(0))
        return m_perAddedRow * rows + m_perAddedNumber * (rows * width);
    return m_times.streams(m_instance, whole(kFloat * rows * width), 3) + ofPieces(rows);
}

Seconds RowTimes::work(const RowWork &work) const
{
    const auto members = static_cast<double>(m_table.members.size());
    const auto width = static_cast<double>(own().width);
    switch (work.kind) {
    case RowWork::Kind::LookUp: // here, and what comes in
        return ofCopies(members * own().unique * width + numbers()) + ofPieces(members * own().unique + pieces());
    case RowWork::Kind::Collect: // copied and cleared
        return ofCopies(numbers()) + m_times.streams(m_instance, whole(kFloat * numbers()), 1) + ofPieces(pieces())
            + ofIds();
    case RowWork::Kind::Update: break;
    }
    // Rows that came in are added up; parameter and states are brought together, updated and brought back.
    const double updated = own().updatedRows(work.part);
    const double moved = 2 * (1 + m_states) * updated;
    return ofAdditions(members * own().rows(work.part), width)
        + m_times.streams(m_instance, whole(kFloat * updated * width), m_streams) + ofCopies(moved * width)
        + ofPieces(moved);
}

Seconds RowTimes::exchange(bool gradients, RowPart part) const
{
    double largest = 0;
    double sum = 0;
    for (const MemberRows &held : m_rows) {
        const double numbers = (gradients ? held.rows(part) : held.unique) * static_cast<double>(held.width);
        largest = std::max(largest, numbers);
        sum += numbers;
    }
    return m_times.allToAll(m_table.team, whole(kFloat * largest),
                            whole(kFloat * sum / static_cast<double>(m_rows.size())));
}

std::int64_t RowTimes::sentBytes(bool gradients, RowPart part) const
{
    if (!gradients)
        return whole(kFloat * own().unique * static_cast<double>((std::ssize(m_table.members) - 1) * own().width));
    double sent = 0;
    for (std::size_t m = 0; m < m_rows.size(); ++m)
        sent += m == m_at ? 0 : m_rows[m].rows(part) * static_cast<double>(m_rows[m].width);
    return whole(kFloat * sent);
}

} // namespace planloom::compile
