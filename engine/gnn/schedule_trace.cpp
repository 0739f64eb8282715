// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/schedule_trace.h"

#include "engine/gnn/role_tasks.h"

#include <algorithm>
#include <cmath>

namespace planloom::gnn {
namespace {

/// Rows of the table of lanes.
enum ScheduleLane : std::int32_t { kComputes, kHosts, kSends, kReceives };

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

trace::Tables tablesOf(const Job &job, const Network &network, std::span<const std::int32_t> machineOf)
{
    trace::Tables tables;
    tables.kinds = trace::standardKinds();
    const auto connections = std::max(1, static_cast<std::int32_t>(network.connections.size()));
    tables.lanes = {{"compute", trace::Work::Compute, 1},
                    {"host", trace::Work::Host, 1},
                    {"send", trace::Work::Communication, connections},
                    {"receive", trace::Work::Communication, connections}};
    for (std::size_t role = 0; role < job.roles.size(); ++role)
        tables.ranks.push_back(
            {job.machines[static_cast<std::size_t>(machineOf[role])].name + "/" + job.roles[role].name});
    return tables;
}

} // namespace

trace::Trace traceOf(const Job &job, const Network &network, const StepLabels &labels, const StepTimes &times,
                     std::span<const std::int32_t> machineOf)
{
    trace::Trace made;
    static_cast<trace::Tables &>(made) = tablesOf(job, network, machineOf);
    made.clock = "cost";
    const auto record = [&](std::size_t step, std::int32_t rank, std::int32_t lane, trace::Kind kind,
                            std::int32_t group) {
        made.tasks.push_back({labels.name[step], kind, -1, -1, group});
        const std::int64_t start = nanoseconds(times.start[step]);
        made.records.push_back({start, nanoseconds(times.end[step]) - start,
                                static_cast<std::int32_t>(made.tasks.size()) - 1, network.iteration[step], rank, lane});
    };
    for (std::size_t step = 0; step < network.steps(); ++step) {
        const std::int32_t connection = network.connection[step];
        if (connection == Network::kTask) {
            const std::int32_t role = labels.role[step];
            const RoleKind kind = job.roles[static_cast<std::size_t>(role)].kind;
            record(step, role, kind == RoleKind::Trainer ? kComputes : kHosts, kindOfTask(kind, labels.name[step]), -1);
            continue;
        }
        const Connection &ends = network.connections[static_cast<std::size_t>(connection)];
        if (machineOf[static_cast<std::size_t>(ends.from)] == machineOf[static_cast<std::size_t>(ends.to)])
            continue;
        const auto group = static_cast<std::int32_t>(step);
        record(step, ends.from, kSends, trace::Kind::Send, group);
        record(step, ends.to, kReceives, trace::Kind::Receive, group);
    }
    made.sort();
    return made;
}

} // namespace planloom::gnn
