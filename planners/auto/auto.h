// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

#include <utility>
#include <vector>

namespace planloom::planners::automatic {

/// `auto`: stages, replicas, placement, tensor parallelism, micro-batches, schedule, recomputation and ZeRO in one
/// search, seeded by the other planners' answers and judged by the simulator. Small problems are searched whole.
/// Reports a proven lower bound over its search space.
class AutoPlanner final : public Planner {
public:
    /// @p seeds: planners whose answers the search may begin with; they must outlive it.
    explicit AutoPlanner(std::vector<const Planner *> seeds) : m_seeds(std::move(seeds)) {}
    [[nodiscard]] std::string name() const override { return "auto"; }
    [[nodiscard]] std::string about() const override
    {
        return "all decisions in one search, seeded by every other planner, with a proven lower bound";
    }
    [[nodiscard]] std::vector<OptionInfo> options() const override;
    [[nodiscard]] Result<PlanReport> plan(const Problem &problem, const Options &options,
                                          Progress &progress) const override;
    /// Ends with the first plan that fits.
    [[nodiscard]] bool fits(const Problem &problem, const Options &options, Progress &progress) const override;

private:
    std::vector<const Planner *> m_seeds;
};

} // namespace planloom::planners::automatic
