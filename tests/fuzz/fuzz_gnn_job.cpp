// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/job_json.h"
#include "engine/gnn/scheduler.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

using namespace planloom::gnn;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const auto file = jobFromJson({reinterpret_cast<const char *>(data), size});
    constexpr std::size_t kSmall = 4096;
    if (!file || !file->graphFolder.empty() || !checkJob(file->job) || file->job.volumes.features.size() > kSmall)
        return 0;
    // What is accepted can be scheduled, and ends.
    const Placement machineOf(file->job.roles.size(), 0);
    const Network network = networkOf(file->job);
    const std::vector<Port> ports = portsOf(file->job);
    if (std::isnan(Scheduler(network, ports).run(machineOf, TransferPolicy::Degree)))
        std::abort();
    return 0;
}
