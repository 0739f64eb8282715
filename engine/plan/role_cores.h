// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/network.h"
#include "engine/plan/plan.h"

#include <string>
#include <vector>

namespace planloom::plan {

/// Sets Port::processor and what belongs to it: the cores that @p node is said to have (cluster::Node::cores), which
/// its trainers and roles share. A node without leaves @p port as it is.
void shareCores(const cluster::Cluster &cluster, const cluster::Node &node, gnn::Port &port);

/// Trainers that compute on the core with most of them, at least 1: so many times longer an iteration of the trainers
/// is where they share cores than that of one alone. Cost: O(devices^2).
double coreCrowd(const Plan &plan, const cluster::Cluster &cluster);

/// A line for each machine with fewer cores than trainers and roles, such as "2 trainers and 6 roles share 2 cores of
/// n0". Empty without a job.
std::vector<std::string> roleCoreNotes(const Plan &plan, const cluster::Cluster &cluster);

} // namespace planloom::plan
