// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

namespace planloom::planners::gpipe {

/// A balanced chain of stages, one device each, all forwards before all backwards (GPipe, Huang et al. 2019).
class GpipePlanner final : public Planner {
public:
    [[nodiscard]] std::string name() const override { return "gpipe"; }
    [[nodiscard]] std::string about() const override
    {
        return "a balanced contiguous cut, one device per stage, all forwards before all backwards (GPipe, 2019)";
    }
    [[nodiscard]] std::vector<OptionInfo> options() const override;
    [[nodiscard]] Result<PlanReport> plan(const Problem &problem, const Options &options,
                                          Progress &progress) const override;
};

} // namespace planloom::planners::gpipe
