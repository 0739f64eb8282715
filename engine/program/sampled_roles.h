// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/job.h"
#include "engine/gnn/transfer_policy.h"

#include <string>
#include <vector>

namespace planloom::program {

/// Processes that bring mini-batches to the ranks of a Program (plan::SampledJob): a side table, as they run beside the
/// ranks' tasks. Their own ranks follow those of the Program, in the order of `processes`.
struct SampledRoles {
    gnn::Job job; ///< with the trainers, which are the Program's ranks; trainSeconds: 0
    gnn::Placement machineOf;
    gnn::TransferPolicy transfers = gnn::TransferPolicy::Degree;
    std::vector<std::string> processes; ///< "g0 on n1": stores, then samplers
};

} // namespace planloom::program
