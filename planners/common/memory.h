// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/cost.h"
#include "engine/plan/plan.h"
#include "engine/simulate/simulate.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace planloom::planners {

/// Memory of one replica of a stage, in bytes. Its peak is fixed + inFlight * perMicroBatch.
struct StageFootprint {
    double fixed = 0;         ///< weights, gradients, optimizer state; workspace of one pass
    double perMicroBatch = 0; ///< kept from a micro-batch's forward to the end of its backward
};

/// The memory of a stage, as planners bound it before a plan is compiled:
///   weights + accumulated gradients + optimizer state, fp32: (2 + state tensors) * parameters, 16 bytes each with
///   Adam;
///   + per micro-batch in flight: the activations that the backward pass reads again, and the stage's input;
///   + once: two slots each for gradients at both boundaries (and for outputs that are not kept), an inbox two
///   micro-batches deeper than
///     activations in flight, the two largest activations of a pass, the fresh gradient of the largest layer.
/// For a profiled layer the kept activations are its output; for real operators the activations that differentiation
/// stashes. Where the costs are those of bfloat16 (plan::inPrecision) so are activations, as
/// engine/graph/rewrite/precision.h has them, and there is a copy of the weights of half their size more. Prefix sums:
/// O(1) a query but for parameters that several layers share.
class MemoryModel {
public:
    /// In the precision that @p costs are for. @p reserve: share of each device's memory that is left to the driver, to
    /// libraries and to fragmentation.
    MemoryModel(const cost::CostModel &costs, const plan::Optimizer &optimizer, double reserve);

    /// Layers [first, last) for slices of @p samples.
    [[nodiscard]] StageFootprint footprint(std::size_t first, std::size_t last, double samples, bool recompute) const;
    /// Weights, gradients and optimizer state alone.
    [[nodiscard]] double persistent(std::size_t first, std::size_t last) const;
    /// Bytes of a device that a stage may use.
    [[nodiscard]] double usable(DeviceId device) const;
    /// Bytes of a sample over cut @p cut (0 and size: nothing).
    [[nodiscard]] double cutBytes(std::size_t cut) const { return m_cut[cut]; }

private:
    const cost::CostModel *m_costs;
    bool m_isProfile;
    double m_copies;
    double m_reserve;
    std::vector<double> m_kept;     ///< prefix sums over layers, bytes per sample
    std::vector<double> m_cut;      ///< bytes per sample
    std::vector<double> m_largest;  ///< per layer: largest activation made, bytes per sample
    std::vector<double> m_gradient; ///< per layer: parameter bytes
};

/// The memory limit that keeps a plan from fitting: a device and its need.
struct MemoryLimit {
    std::string holds; ///< "stage0, layers 4 to 8"
    DeviceId device;
    double needed = 0; ///< bytes
    double usable = 0;
    [[nodiscard]] double factor() const { return usable > 0 ? needed / usable : 1e300; }
};

/// The device that a simulated plan overflows most, or that is fullest if none is; @p reserve: share of a device's
/// memory that is not used.
MemoryLimit limitOf(const plan::Plan &plan, const plan::Subject &subject, const simulate::Report &report,
                    double reserve = 0);

/// The limit of the layers cut over the devices, each its own run of them and one micro-batch of @p samples at a time,
/// so that the peak is minimal: a lower bound for pipelines. None where it would take too long.
std::optional<MemoryLimit> leastMemory(const cost::CostModel &costs, const MemoryModel &memory, double samples,
                                       bool recompute);

/// The limit that no plan can go below on @p devices: weights, gradients and optimizer state, of which each device
/// holds a part by its memory.
MemoryLimit spreadMemory(const cost::CostModel &costs, const MemoryModel &memory, const std::vector<DeviceId> &devices);

/// Infeasible: the device that is short of memory, its use, and the missing bytes. @p more: a remark on the need.
Error memoryBinds(const cluster::Cluster &cluster, const MemoryLimit &limit, const std::string &more = {});

} // namespace planloom::planners
