// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/role_tasks.h"

namespace planloom::gnn {

std::string withoutIteration(const std::string &label) { return label.substr(0, label.rfind(".n")); }

trace::Kind kindOfTask(RoleKind role, const std::string &label)
{
    switch (role) {
    case RoleKind::GraphStore: return trace::Kind::Rows;
    case RoleKind::Sampler: return label.find(".NS") != std::string::npos ? trace::Kind::Other : trace::Kind::Load;
    case RoleKind::Trainer: return trace::Kind::Forward;
    case RoleKind::ParameterServer: return trace::Kind::Optimizer;
    }
    return trace::Kind::Other;
}

std::vector<RoleTask> roleTasksOf(const Job &job)
{
    Job once = job;
    once.volumes = Volumes(1, job.volumes.stores, job.volumes.samplers);
    StepLabels labels;
    const Network network = networkOf(once, &labels);
    std::vector<RoleTask> tasks;
    for (std::size_t step = 0; step < network.steps(); ++step) {
        const std::string id = withoutIteration(labels.name[step]);
        const std::int32_t role = labels.role[step];
        if (network.connection[step] != Network::kTask) {
            const Connection &ends = network.connections[static_cast<std::size_t>(network.connection[step])];
            tasks.push_back({id, step, ends.from, RoleTask::Lane::Send, trace::Kind::Send});
            tasks.push_back({id, step, ends.to, RoleTask::Lane::Receive, trace::Kind::Receive});
            continue;
        }
        const RoleKind kind = job.roles[static_cast<std::size_t>(role)].kind;
        if (kind != RoleKind::Trainer)
            tasks.push_back({id, step, role, RoleTask::Lane::Host, kindOfTask(kind, id)});
    }
    return tasks;
}

} // namespace planloom::gnn
