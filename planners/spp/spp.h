// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

namespace planloom::planners::spp {

/// Stages with replicas on a line of devices, scheduled in cycles (SPP: Luo et al., INFOCOM 2022).
class SppPlanner final : public Planner {
public:
    [[nodiscard]] std::string name() const override { return "spp"; }
    [[nodiscard]] std::string about() const override
    {
        return "partition and replication over a line of devices from minimum cuts, scheduled in cycles (SPP, 2022)";
    }
    [[nodiscard]] std::vector<OptionInfo> options() const override;
    [[nodiscard]] Result<PlanReport> plan(const Problem &problem, const Options &options,
                                          Progress &progress) const override;
};

} // namespace planloom::planners::spp
