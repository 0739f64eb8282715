// SPDX-License-Identifier: Apache-2.0
#include "engine/simulate/role_schedule.h"

#include "engine/gnn/steady_iteration.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace planloom::simulate {
namespace {

std::int64_t toNanoseconds(double seconds) { return std::llround(seconds * 1e9); }

/// Ranks on the core with most of them, at least 1.
double crowdOf(const program::Program &program)
{
    std::map<std::int32_t, int> ranks;
    int most = 1;
    for (const program::Rank &rank : program.ranks) {
        if (rank.core >= 0)
            most = std::max(most, ++ranks[rank.core]);
    }
    return most;
}

/// With the seconds of a trainer that has its core to itself: those that share one are sorted out by the schedule.
gnn::Job jobOf(const program::Program &program, double iteration)
{
    gnn::Job job = program.sampled->job;
    job.trainSeconds = iteration / crowdOf(program);
    return job;
}

} // namespace

RoleSchedule::RoleSchedule(const program::Program &program, double iteration)
    : m_program(program),
      m_iteration(iteration),
      m_job(jobOf(program, iteration)),
      m_network(gnn::networkOf(m_job, &m_labels))
{
    const std::vector<gnn::Port> ports = gnn::portsOf(m_job);
    const program::SampledRoles &roles = *program.sampled;
    gnn::Scheduler(m_network, ports).run(roles.machineOf, roles.transfers, &m_times);
}

double RoleSchedule::iterationSeconds() const
{
    const program::SampledRoles &roles = *m_program.sampled;
    return gnn::steadyIteration(m_job, roles.machineOf, roles.transfers);
}

void RoleSchedule::into(trace::Trace &trace) const
{
    repeatRanks(trace);
    addRoles(trace);
    trace.sort();
}

void RoleSchedule::repeatRanks(trace::Trace &trace) const
{
    const std::vector<trace::Record> once = std::exchange(trace.records, {});
    for (std::size_t step = 0; step < m_network.steps(); ++step) {
        const std::int32_t role = m_labels.role[step];
        const bool trains = m_network.connection[step] == gnn::Network::kTask
            && m_job.roles[static_cast<std::size_t>(role)].kind == gnn::RoleKind::Trainer;
        if (!trains)
            continue;
        const std::int32_t rank = program::rankOfRole(m_job, role);
        // Where others share its cores, a trainer takes longer than alone, by the same factor in all that it does.
        const double slower = m_iteration > 0 ? (m_times.end[step] - m_times.start[step]) / m_iteration : 1;
        const auto later = [&](std::int64_t time) {
            return toNanoseconds(m_times.start[step] + static_cast<double>(time) * 1e-9 * slower);
        };
        for (trace::Record record : once) {
            if (record.rank != rank)
                continue;
            const std::int64_t end = later(record.start + record.duration);
            record.start = later(record.start);
            record.duration = end - record.start;
            record.step = m_network.iteration[step];
            trace.records.push_back(record);
        }
    }
}

void RoleSchedule::addRoles(trace::Trace &trace) const
{
    const program::RoleRows rows(m_program);
    const std::size_t ofIteration = m_network.steps() / static_cast<std::size_t>(m_job.volumes.iterations);
    for (std::int32_t n = 0; n < m_job.volumes.iterations; ++n) {
        std::int32_t task = rows.first();
        for (const program::RoleRows::Row &row : rows.rows()) {
            const std::size_t step = static_cast<std::size_t>(n) * ofIteration + row.task.step;
            const std::int64_t start = toNanoseconds(m_times.start[step]);
            trace.records.push_back({start, toNanoseconds(m_times.end[step]) - start, task++, n, row.rank, row.lane});
        }
    }
}

} // namespace planloom::simulate
