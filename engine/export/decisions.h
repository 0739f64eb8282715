// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::exporting {

/// What the memory policies of @p program decided (plan::Memory), as tab-separated text with a line of headings: rank's
/// device, seconds on the policy's clock, tensor, micro-batch, bytes, seconds since its last use, seconds of its
/// operator, of all that would have to run again, score of the filter, ratio of the director, and "swap" or
/// "recompute". Tensors have their names where the program has bodies, else numbers. Cost: O(decisions).
std::string decisionLog(const program::Program &program, const cluster::Cluster &cluster);

/// What was carried out of it, read from the records of @p trace: a swap has its line if its copy to the host ran, a
/// recomputation if the run did that made the tensor again, and as often as it did. A step without deviation has the
/// lines of decisionLog().
struct ExecutedDecisions {
    std::string text; ///< "step", then the columns of decisionLog(), for each recorded step
    std::vector<std::int64_t> steps;
    std::vector<std::int64_t> differing; ///< steps whose lines are not those of decisionLog()
};
/// @p program has to have been compiled from the plan that was run, with bodies; records of tasks that it does not have
/// are passed by. Cost: O(records).
ExecutedDecisions executedDecisions(const program::Program &program, const cluster::Cluster &cluster,
                                    const trace::Trace &trace);

} // namespace planloom::exporting
