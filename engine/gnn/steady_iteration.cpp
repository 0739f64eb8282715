// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/steady_iteration.h"

#include <algorithm>

namespace planloom::gnn {

double steadyIteration(const Job &job, std::span<const std::int32_t> machineOf, TransferPolicy policy)
{
    StepLabels labels;
    const Network network = networkOf(job, &labels);
    const std::vector<Port> ports = portsOf(job);
    StepTimes times;
    Scheduler(network, ports).run(machineOf, policy, &times);
    return steadyIteration(job, network, labels, times);
}

double steadyIteration(const Job &job, const Network &network, const StepLabels &labels, const StepTimes &times)
{
    const auto iterations = static_cast<std::size_t>(job.volumes.iterations);
    std::vector<double> ends(iterations);
    for (std::size_t step = 0; step < network.steps(); ++step) {
        const auto role = static_cast<std::size_t>(labels.role[step]);
        if (network.connection[step] == Network::kTask && job.roles[role].kind == RoleKind::Trainer) {
            double &end = ends[static_cast<std::size_t>(network.iteration[step])];
            end = std::max(end, times.end[step]);
        }
    }
    const std::size_t half = iterations / 2;
    const double before = half == 0 ? 0 : ends[half - 1];
    return (ends.back() - before) / static_cast<double>(iterations - half);
}

} // namespace planloom::gnn
