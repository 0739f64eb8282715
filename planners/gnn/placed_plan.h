// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"
#include "planners/gnn/evaluation.h"

#include <cstdint>

namespace planloom::planners::gnn {

/// The job of a plan's roles and trainers with what each takes: a trainer a device, others a role slot of the machine's
/// @p slots (0: any number), and with the seconds of trainers that never wait. @p plan must be valid and have a job.
/// Errors: those of simulating the plan.
Result<Job> jobOfPlan(const plan::Plan &plan, const plan::Subject &subject, std::int64_t slots, Placement &machineOf);

/// The slots that planner gnn was told of when it made @p plan; 0: any number.
std::int64_t slotsOfPlan(const plan::Plan &plan);

/// Roles go to their machines, trainers to the next free device there. @p machineOf must fit the job of @p plan.
void placeRoles(const Placement &machineOf, const cluster::Cluster &cluster, plan::Plan &plan);

/// Puts one role of the job of @p plan on another machine: a trainer on the first device there that no other trainer
/// has. Errors (Infeasible): the machine lacks a resource, with its name and figures; it changes nothing then.
Status moveRole(const Job &job, const Placement &machineOf, std::size_t role, std::int32_t machine,
                const cluster::Cluster &cluster, plan::Plan &plan);

} // namespace planloom::planners::gnn
