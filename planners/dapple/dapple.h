// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

namespace planloom::planners::dapple {

/// DAPPLE (Fan et al., PPoPP 2021): stages that are replicated, placed and scheduled for the shortest synchronous
/// iteration. The options, and the choices where the paper is silent: resources/docs/planners/dapple.md.
class DapplePlanner final : public Planner {
public:
    [[nodiscard]] std::string name() const override { return "dapple"; }
    [[nodiscard]] std::string about() const override;
    [[nodiscard]] std::vector<OptionInfo> options() const override;
    [[nodiscard]] Result<PlanReport> plan(const Problem &problem, const Options &options,
                                          Progress &progress) const override;
};

} // namespace planloom::planners::dapple
