// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/steady_iteration.h"

#include <algorithm>
#include <vector>

namespace planloom::gnn {
namespace {

/// The iterations of @p job, three times.
Job threeTimes(const Job &job)
{
    Job repeated = job;
    repeated.volumes.iterations *= 3;
    const auto repeat = [](std::vector<double> &values) {
        const std::size_t once = values.size();
        values.resize(3 * once);
        std::copy_n(values.begin(), once, values.begin() + static_cast<std::ptrdiff_t>(once));
        std::copy_n(values.begin(), once, values.begin() + static_cast<std::ptrdiff_t>(2 * once));
    };
    repeat(repeated.volumes.features);
    repeat(repeated.volumes.batches);
    return repeated;
}

/// When the last trainer ended each iteration.
std::vector<double> iterationEnds(const Job &job, std::span<const std::int32_t> machineOf, TransferPolicy policy)
{
    StepLabels labels;
    const Network network = networkOf(job, &labels);
    const std::vector<Port> ports = portsOf(job);
    StepTimes times;
    Scheduler(network, ports).run(machineOf, policy, &times);
    std::vector<double> ends(static_cast<std::size_t>(job.volumes.iterations));
    for (std::size_t step = 0; step < network.steps(); ++step) {
        const auto role = static_cast<std::size_t>(labels.role[step]);
        if (network.connection[step] == Network::kTask && job.roles[role].kind == RoleKind::Trainer) {
            double &end = ends[static_cast<std::size_t>(network.iteration[step])];
            end = std::max(end, times.end[step]);
        }
    }
    return ends;
}

} // namespace

double steadyIteration(const Job &job, std::span<const std::int32_t> machineOf, TransferPolicy policy)
{
    constexpr std::size_t kMany = 20'000; // features that are sent, of 64 machines with 128 samplers in 3 iterations
    const bool repeats = job.volumes.features.size() <= kMany || job.volumes.iterations < 6;
    const std::vector<double> ends = iterationEnds(repeats ? threeTimes(job) : job, machineOf, policy);
    const std::size_t third = ends.size() / 3;
    return (ends[2 * third - 1] - ends[third - 1]) / static_cast<double>(third);
}

} // namespace planloom::gnn
