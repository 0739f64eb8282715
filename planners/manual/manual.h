// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

namespace planloom::planners::manual {

/// The plan for given degrees of data, tensor and pipeline parallelism, as Megatron-LM makes it; the cut between
/// stages is balanced, tensors are laid out as Shoeybi et al. (2019, §3) and Korthikanti et al. (2022) do. No search.
class ManualPlanner final : public Planner {
public:
    [[nodiscard]] std::string name() const override { return "manual"; }
    [[nodiscard]] std::string about() const override
    {
        return "data x tensor x pipeline parallel by given degrees, the rest as in Megatron-LM (2019, 2022)";
    }
    [[nodiscard]] std::vector<OptionInfo> options() const override;
    [[nodiscard]] Result<PlanReport> plan(const Problem &problem, const Options &options,
                                          Progress &progress) const override;
};

} // namespace planloom::planners::manual
