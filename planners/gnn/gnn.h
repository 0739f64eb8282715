// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

namespace planloom::planners::gnn {

/// Sampled training of a graph model: a trainer, a sampler or more for each and a graph store for each part of the
/// graph, on the machines of the cluster (Luo, Bao and Wu, INFOCOM 2022). Trainers are the replicas of one stage and
/// sum up their gradients. Needs Problem::sampledGraph.
class GnnPlanner final : public Planner {
public:
    [[nodiscard]] std::string name() const override { return "gnn"; }
    [[nodiscard]] std::string about() const override
    {
        return "places graph stores, samplers and trainers of sampled training (Luo, Bao, Wu, 2022)";
    }
    [[nodiscard]] std::vector<OptionInfo> options() const override;
    /// Errors besides those of every planner: BadInput (no graph, a model that takes no trees, a batch that the
    /// trainers and samplers do not divide), Infeasible (a role that fits nowhere, naming it and the resource).
    [[nodiscard]] Result<PlanReport> plan(const Problem &problem, const Options &options,
                                          Progress &progress) const override;
};

} // namespace planloom::planners::gnn
