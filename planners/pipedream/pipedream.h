// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/pipedream/partition.h"
#include "planners/interface/planner.h"

namespace planloom::planners::pipedream {

/// The layers of @p problem with their times for @p samples on the first device.
std::vector<Layer> layersOf(const Problem &problem, double samples);

/// The devices of a machine, then the machines, with the first ones' bandwidths: PipeDream takes all for equal. Where
/// machines differ in size, all devices as one level with the narrowest link between neighbours in the order of ids,
/// which in a tree of links is the narrowest of all.
std::vector<Level> levelsOf(const cluster::Cluster &cluster);

/// PipeDream's partition (Narayanan et al., SOSP 2019), run with synchronous steps.
class PipeDreamPlanner final : public Planner {
public:
    [[nodiscard]] std::string name() const override { return "pipedream"; }
    [[nodiscard]] std::string about() const override
    {
        return "hierarchical partition and replication for the steadiest flow of micro-batches (PipeDream, 2019)";
    }
    [[nodiscard]] std::vector<OptionInfo> options() const override;
    [[nodiscard]] Result<PlanReport> plan(const Problem &problem, const Options &options,
                                          Progress &progress) const override;
};

} // namespace planloom::planners::pipedream
