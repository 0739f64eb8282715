// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/planner.h"

namespace planloom::planners::manual {

/// What a person asks for, Megatron-LM's way: so many devices data, tensor and pipeline parallel; the cut between stages is balanced, tensors
/// are laid out as Shoeybi et al. (2019, §3) and Korthikanti et al. (2022) do. No search.
class ManualPlanner final : public Planner {
public:
    [[nodiscard]] std::string name() const override { return "manual"; }
    [[nodiscard]] std::string about() const override { return "data x tensor x pipeline parallel as you say, the rest filled in as Megatron-LM does (2019, 2022)"; }
    [[nodiscard]] std::vector<OptionInfo> options() const override;
    [[nodiscard]] Result<PlanReport> plan(const Problem &problem, const Options &options, Progress &progress) const override;
};

} // namespace planloom::planners::manual
