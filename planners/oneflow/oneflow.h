// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

namespace planloom::planners::oneflow {

/// The layout of every tensor over a device mesh, from a search over the operators' signatures (OneFlow: Yuan et al.,
/// 2021, and the auto-parallel module of its repository).
class OneFlowPlanner final : public Planner {
public:
    [[nodiscard]] std::string name() const override { return "oneflow"; }
    [[nodiscard]] std::string about() const override
    {
        return "the layout (SBP) of every tensor over a device mesh, with the least computing and boxing (OneFlow, "
               "2021)";
    }
    [[nodiscard]] std::vector<OptionInfo> options() const override;
    [[nodiscard]] Result<PlanReport> plan(const Problem &problem, const Options &options,
                                          Progress &progress) const override;
};

} // namespace planloom::planners::oneflow
