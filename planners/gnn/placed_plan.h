// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"
#include "planners/gnn/evaluation.h"
#include "planners/gnn/search.h"

#include <cstdint>

namespace planloom::planners::gnn {

/// The job of a plan's roles and trainers with what each takes: a trainer a device, others a role slot of the machine's
/// @p slots (0: any number), and with the seconds of trainers that never wait. @p plan must be valid and have a job.
/// Errors: those of simulating the plan.
Result<Job> jobOfPlan(const plan::Plan &plan, const plan::Subject &subject, std::int64_t slots, Placement &machineOf);

/// The same for a search, which moves trainers about: each takes as long as one alone would on a device of its machine,
/// and what they sum up by all-reduce goes around a ring of them, over the network. Errors: those of simulating.
Result<Job> searchJobOf(const plan::Plan &plan, const plan::Subject &subject, std::int64_t slots, Placement &machineOf);

/// Of the placements that a search of searchJobOf() came by, the one whose plan has the shortest iteration in the
/// simulator, which knows the trainers' collectives and counts the iterations in the long run; of equal ones that of
/// the search. Cost: a simulation each, where there are several. Errors: those of simulating the plan.
Result<Placement> fastestOf(const SearchResult &found, const plan::Plan &plan, const plan::Subject &subject);

/// The slots that planner gnn was told of when it made @p plan; 0: any number.
std::int64_t slotsOfPlan(const plan::Plan &plan);

/// Roles go to their machines, trainers to the next free device there. @p machineOf must fit the job of @p plan.
void placeRoles(const Placement &machineOf, const cluster::Cluster &cluster, plan::Plan &plan);

/// Puts one role of the job of @p plan on another machine: a trainer on the first device there that no other trainer
/// has. Errors (Infeasible): the machine lacks a resource, with its name and figures; it changes nothing then.
Status moveRole(const Job &job, const Placement &machineOf, std::size_t role, std::int32_t machine,
                const cluster::Cluster &cluster, plan::Plan &plan);

} // namespace planloom::planners::gnn
