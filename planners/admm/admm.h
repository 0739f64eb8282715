// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

namespace planloom::planners::admm {

/// Training of a recurrent network by ADMM (P-ADMMiRNN: Tang and others, arXiv 2006.05622): the batch, which is all
/// samples, is shared out among one stage's replicas, and the number of replicas with the shortest simulated iteration
/// is taken.
class AdmmPlanner final : public Planner {
public:
    [[nodiscard]] std::string name() const override { return "admm"; }
    [[nodiscard]] std::string about() const override
    {
        return "trains a recurrent network by sub-problems instead of gradients (P-ADMMiRNN: Tang and others, 2020)";
    }
    [[nodiscard]] std::vector<OptionInfo> options() const override;
    /// Errors besides those of every planner: Unsupported (a model without the pattern, naming the operator), BadInput
    /// (penalties), Infeasible (no number of workers fits their memory).
    [[nodiscard]] Result<PlanReport> plan(const Problem &problem, const Options &options,
                                          Progress &progress) const override;
};

} // namespace planloom::planners::admm
