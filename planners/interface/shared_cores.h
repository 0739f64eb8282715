// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/plan.h"

#include <span>
#include <vector>

namespace planloom::planners {

/// Processor cores that devices of a plan share (cluster::coresOf), for estimates: the simulator gives what computes at
/// the same time on a core equal parts of its time (engine/simulate/shared_cores.h). The cluster must outlive it.
class SharedCores {
public:
    /// The devices of each stage, in the plan's order.
    using Stages = std::vector<std::span<const DeviceId>>;

    explicit SharedCores(const cluster::Cluster &cluster);

    /// False: no plan has devices that share a core. Everything below is of use only otherwise.
    [[nodiscard]] bool any() const { return m_any; }
    /// Of each stage: how many of its devices compute on the same core, at most. Replicas compute at the same time, so
    /// that their passes take as many times longer. O(devices).
    [[nodiscard]] std::vector<double> crowds(const Stages &stages) const;
    /// Seconds that the busiest shared core computes if each device of stage s computes for @p seconds [s]: no order of
    /// passes ends before. 0: no device of the plan shares one. O(devices).
    [[nodiscard]] double busiest(const Stages &stages, std::span<const double> seconds) const;
    /// Cores that all devices of the cluster compute on together; devices that share none count one each.
    [[nodiscard]] double all() const { return m_all; }

private:
    [[nodiscard]] std::vector<std::int32_t> coresOf(const Stages &stages) const;

    const cluster::Cluster *m_cluster;
    double m_all = 0;
    bool m_any = false;
};

SharedCores::Stages devicesByStage(const plan::Plan &plan);

/// SharedCores::busiest of @p plan, by the cost model: all forward and backward passes of an iteration and what is
/// recomputed. 0 where the plan's devices share no core.
double sharedCoreSeconds(const plan::Plan &plan, const plan::Subject &subject);

} // namespace planloom::planners
