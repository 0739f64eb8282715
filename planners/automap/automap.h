// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

namespace planloom::planners::automap {

/// Three families of plans, each explored by a deep Q-network (Auto-MAP: Wang et al., 2020).
class AutoMapPlanner final : public Planner {
public:
    [[nodiscard]] std::string name() const override { return "automap"; }
    [[nodiscard]] std::string about() const override
    {
        return "operators, batch or pipeline partitioned, each explored by deep Q-learning (Auto-MAP, 2020)";
    }
    [[nodiscard]] std::vector<OptionInfo> options() const override;
    [[nodiscard]] Result<PlanReport> plan(const Problem &problem, const Options &options,
                                          Progress &progress) const override;
};

} // namespace planloom::planners::automap
