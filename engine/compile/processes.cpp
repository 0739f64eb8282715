// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/processes.h"

#include "engine/admm/block_graphs.h"
#include "engine/admm/message.h"
#include "engine/admm/pattern.h"
#include "engine/cost/local_costs.h"

namespace planloom::compile {

Result<std::optional<program::ParameterServer>> serverOf(const Source &source)
{
    const auto &[plan, subject] = source;
    if (!plan.admm || plan.admm->parallel != admm::Parallel::Asynchronous)
        return std::optional<program::ParameterServer>();
    const auto pattern = admm::findPattern(*subject.graph);
    if (!pattern)
        return pattern.error();
    const admm::Sizes sizes{pattern->inputs, pattern->hidden, pattern->classes, pattern->steps};
    const auto method = admm::Method::of(*plan.admm, static_cast<int>(sizes.steps));
    if (!method)
        return method.error();
    const admm::MessageLayout layout(sizes, *plan.admm);
    constexpr std::int64_t kFloat = 4;
    program::ParameterServer server{plan.admm->barrier, plan.admm->delay, kFloat * layout.parameters(),
                                    kFloat * layout.elements, 0};
    // Of the workers' iterations a profile has the same systems, which are solved once whatever the samples.
    const auto samples = static_cast<double>(plan::replicaRange(plan.stages.front(), 0, plan.globalBatch).size);
    const std::size_t type = subject.cluster->device(plan.stages.front().devices.front()).type;
    for (const admm::Part part : {admm::Part::SolveIn, admm::Part::SolveOut}) {
        const auto solves = admm::blockGraph(part, sizes, *method);
        if (!solves)
            return solves.error();
        server.seconds +=
            cost::LocalCosts(*subject.costs, *solves).seconds(0, solves->ops().size(), samples, type).value();
    }
    return std::optional(server);
}

std::optional<program::SampledRoles> sampledRolesOf(const Source &source)
{
    const auto &[plan, subject] = source;
    if (!plan.job)
        return std::nullopt;
    program::SampledRoles roles;
    roles.job = plan::jobOf(plan, subject, roles.machineOf);
    roles.transfers = plan.job->transfers;
    for (const plan::PlacedRole &role : plan.roles)
        roles.processes.push_back(role.name + " on " + role.machine);
    return roles;
}

} // namespace planloom::compile
