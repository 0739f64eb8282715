// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/common/memory.h"
#include "planners/interface/shared_cores.h"
#include "planners/whale/balance.h"
#include "planners/whale/bridge.h"
#include "planners/whale/settings.h"
#include "planners/whale/task_graphs.h"
#include "planners/whale/virtual_devices.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace planloom::planners::whale {

/// A task graph on its devices, with its load shared out.
struct Placed {
    TaskGraph taskGraph;
    std::vector<std::vector<DeviceId>> replicas; ///< in the order of their samples; a split one has several devices
    std::vector<std::int64_t> units;             ///< samples of a micro-batch per replica
    bool recompute = false;
    int parts = 1;         ///< devices of a replica
    double splitShare = 0; ///< of the weights, the fraction that is split
};

/// Task graphs, devices and a number of micro-batches made into stages.
struct Laid {
    std::vector<Placed> placed;
    std::int64_t microBatches = 1;
    double seconds = 0; ///< of an iteration, by formula: fill and drain once, the slowest stage for each micro-batch,
                        ///< the longest all-reduce
    double evenSeconds = 0; ///< the same with even shares
    double bridgeBytes = 0; ///< gathered between task graphs, for one micro-batch
    int fusedBridges = 0;
};

/// Lays task graphs out. One per problem; not thread-safe.
class Layouter {
public:
    Layouter(const Problem &problem, const Settings &settings);

    /// Memory of compiled plans beyond the estimate, per device; subtracted from the usable memory.
    void tighten(DeviceId device, double factor);

    /// Samples are shared out on the given devices. Nothing if that does not fit; shortage() then knows by how much.
    std::optional<Laid> lay(const std::vector<TaskGraph> &taskGraphs,
                            const std::vector<std::vector<std::vector<DeviceId>>> &devices, std::int64_t microBatches,
                            const std::map<std::string, double> &splitShares);

    /// A model without annotations: @p devices per task graph, cut in proportion to their speed. Nothing as above.
    std::optional<std::vector<TaskGraph>> cut(const std::vector<std::vector<std::vector<DeviceId>>> &devices,
                                              std::int64_t microBatches);

    /// The smallest shortage met so far.
    [[nodiscard]] const std::optional<MemoryLimit> &shortage() const { return m_shortage; }

private:
    struct Load {
        std::vector<Worker> workers;
        LoadMemory memory;
        std::int64_t units = 0;
    };
    [[nodiscard]] double speedOf(std::size_t first, std::size_t last, DeviceId device, double samples) const;
    [[nodiscard]] double usable(DeviceId device) const;
    [[nodiscard]] LoadMemory memoryOf(const Placed &placed, int inFlight, bool recompute, std::int64_t units) const;
    [[nodiscard]] Load loadOf(const Placed &placed, int inFlight, bool recompute, std::int64_t units) const;
    [[nodiscard]] Balance share(const Load &load) const;
    bool settle(Placed &placed, int inFlight, std::int64_t units, bool note);
    void note(const Placed &placed, const Load &load, const Balance &balance);
    [[nodiscard]] double secondsOf(const Laid &laid, bool even) const;
    void bridges(Laid &laid, std::int64_t units) const;

    const Problem *m_problem;
    const Settings *m_settings;
    const cost::CostModel *m_costs;
    MemoryModel m_memory;
    SharedCores m_cores;
    std::map<DeviceId, double> m_tightened;
    std::optional<MemoryLimit> m_shortage;
};

} // namespace planloom::planners::whale
