// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/row_tasks.h"

#include "engine/cost/sparse_rows.h"

#include <algorithm>
#include <cmath>

namespace planloom::compile {

using program::RowPart;
using program::RowWork;

namespace {

constexpr int kFloat = 4; // bytes

std::int64_t whole(double bytes) { return std::llround(bytes); }

} // namespace

RowTimes::RowTimes(const Compilation &all, TaskTimes &times, const program::Table &table, const RankSite &site)
    : m_times(times),
      m_table(table),
      m_site(site),
      m_states(all.plan.optimizer.rule.footprint().states),
      m_streams(all.plan.optimizer.rule.footprint().streams)
{
    const program::Team &team = all.program.team(table.team);
    const auto members = static_cast<std::int64_t>(team.size());
    const std::int64_t ids = (all.plan.globalBatch + members - 1) / members * table.idsPerSample;
    const cost::ExpectedRows expected = cost::expectedRows(table.rows, ids, static_cast<int>(members));
    m_unique = expected.unique;
    m_prior = expected.prior;
    m_updated = cost::expectedRows(table.rows, ids * members, 1).unique;
    const program::Table::Member &own = table.members[team.position(site.rank)];
    m_width = own.end - own.begin;
    for (const program::Table::Member &member : table.members) {
        m_widest = std::max(m_widest, member.end - member.begin);
        m_widths += member.end - member.begin;
    }
}

double RowTimes::rows(RowPart part) const
{
    return part == RowPart::All ? m_unique : part == RowPart::Prior ? m_prior : m_unique - m_prior;
}

Seconds RowTimes::work(const RowWork &work) const
{
    const auto members = static_cast<double>(m_table.members.size());
    switch (work.kind) {
    case RowWork::Kind::LookUp: // read and written, here; and what comes in
        return m_times.streams(m_site,
                               whole(kFloat
                                     * (members * m_unique * static_cast<double>(m_width)
                                        + m_unique * static_cast<double>(m_table.columns))),
                               2);
    case RowWork::Kind::Collect: // read, written and cleared
        return m_times.streams(m_site, whole(kFloat * m_unique * static_cast<double>(m_widths)), 3);
    case RowWork::Kind::Update: break;
    }
    // Rows that came in are read and added up; parameter and states are brought together, updated and brought back.
    const double added = kFloat * members * rows(work.part) * static_cast<double>(m_width);
    const double updated = kFloat * m_updated * (rows(work.part) / m_unique) * static_cast<double>(m_width);
    return m_times.streams(m_site, whole(added), 3)
        + m_times.streams(m_site, whole(updated), m_streams + 4 * (1 + m_states));
}

Seconds RowTimes::exchange(bool gradients, RowPart part) const
{
    const double rowsEach = gradients ? rows(part) : m_unique;
    const std::int64_t piece = whole(kFloat * rowsEach * static_cast<double>(m_widest));
    return m_times.collective(cost::Collective::AllToAll, m_table.team, piece * std::ssize(m_table.members));
}

std::int64_t RowTimes::sentBytes(bool gradients, RowPart part) const
{
    if (gradients)
        return whole(kFloat * rows(part) * static_cast<double>(m_widths - m_width));
    return whole(kFloat * m_unique * static_cast<double>((std::ssize(m_table.members) - 1) * m_width));
}

} // namespace planloom::compile
