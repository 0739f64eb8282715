// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

namespace planloom::planners::whale {

/// Task graphs as annotated, or cut in proportion to the speed of devices; replicas with unequal shares on unequal
/// devices; copies of the whole on the remaining devices (Whale: Jia et al., USENIX ATC 2022). It follows annotations
/// and optimises within them.
class WhalePlanner final : public Planner {
public:
    [[nodiscard]] std::string name() const override { return "whale"; }
    [[nodiscard]] std::string about() const override
    {
        return "replicate and split as annotated, loads balanced over unequal devices within their memory (Whale, "
               "USENIX ATC 2022)";
    }
    [[nodiscard]] std::vector<OptionInfo> options() const override;
    [[nodiscard]] bool takesAnnotations() const override { return true; }
    [[nodiscard]] Result<PlanReport> plan(const Problem &problem, const Options &options,
                                          Progress &progress) const override;
};

} // namespace planloom::planners::whale
