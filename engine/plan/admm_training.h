// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/settings.h"

#include <optional>
#include <string>

namespace planloom::plan {

struct Optimizer;
struct Plan;
struct Subject;

/// The optimizer of a plan that trains by ADMM: new parameters take the place of the old ones.
Optimizer admmOptimizer();

/// That Plan::admm can be compiled: a model with the pattern, one stage of replicas without more, one micro-batch,
/// penalties whose systems can have a factor. @p field: the plan's field that an error is about. Errors: BadInput,
/// Unsupported.
Status validateAdmm(const Plan &plan, const Subject &subject, std::string &field);

/// The plan of the steps by gradients that follow those by ADMM (Plan::then); none: there are no such steps.
std::optional<Plan> continuationOf(const Plan &plan);

/// "admm (mu 10, gamma 0.7, rho 1, ridge 1, duals all, order interleaved, 6 and 3 inner steps)"
std::string textOf(const admm::Settings &settings);

const char *name(admm::Duals duals);             ///< "all", "last"
const char *name(admm::Order order);             ///< "interleaved", "split"
const char *name(admm::Subproblems subproblems); ///< "exact", "linearised", "released"
const char *name(admm::Parallel parallel);       ///< "synchronous", "asynchronous"

} // namespace planloom::plan
