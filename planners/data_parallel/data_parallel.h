// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

namespace planloom::planners::data_parallel {

/// One stage on all devices, gradients all-reduced once a step.
class DataParallelPlanner final : public Planner {
public:
    [[nodiscard]] std::string name() const override { return "data-parallel"; }
    [[nodiscard]] std::string about() const override
    {
        return "the whole model on every device, gradients all-reduced once a step";
    }
    [[nodiscard]] std::vector<OptionInfo> options() const override;
    [[nodiscard]] Result<PlanReport> plan(const Problem &problem, const Options &options,
                                          Progress &progress) const override;
};

} // namespace planloom::planners::data_parallel
