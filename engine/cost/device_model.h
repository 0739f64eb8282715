// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/units.h"
#include "engine/cluster/cluster.h"
#include "engine/cost/work.h"

#include <array>
#include <optional>
#include <span>

namespace planloom::cost {

/// How long kernels take on one type of GPU: a roofline whose efficiency depends on sizes. Products are cut into tiles,
/// which run in waves over the processors; the best of several tile sizes counts, as a library's heuristic would
/// choose. Everything else is bound by memory. Every kernel pays for its launch. The figures and their sources:
/// resources/docs/cost.md. Immutable.
class DeviceModel {
public:
    /// Of the family that the type's name begins with: V100, P100, T4, A100, H100, H200, B200. None for others, CPUs
    /// among them: CostModel's plain roofline.
    static std::optional<DeviceModel> of(const cluster::DeviceType &type);
    static std::vector<std::string> families();
    /// What kernels of other libraries, or under lower limits of power, reach of this model.
    struct Reached {
        double products = 1;  ///< of the rates
        double attention = 1; ///< of fused attention's share of them
        double ramp = 0;      ///< steps along the inner dimension added to those that fill and drain a product's tile
    };
    [[nodiscard]] DeviceModel with(const Reached &reached) const;

    [[nodiscard]] Seconds seconds(const KernelWork &work, double samples) const;
    [[nodiscard]] Seconds seconds(std::span<const KernelWork> work, double samples) const;
    /// @p batch products of (rows, inner) by (inner, columns) that read and write @p bytes.
    [[nodiscard]] Seconds product(double rows, double columns, double inner, double batch, double bytes,
                                  graph::DType type) const;
    /// A kernel that reads and writes @p bytes.
    [[nodiscard]] Seconds streaming(double bytes) const;
    /// FLOP/s of the largest products.
    [[nodiscard]] double productRate(graph::DType type) const { return m_rates[static_cast<std::size_t>(type)]; }

private:
    static constexpr std::size_t kTypes = 16;
    std::array<double, kTypes> m_rates{}; ///< FLOP/s in the main loop of the largest tile, all processors together
    double m_attention = 0;               ///< share of that in fused attention
    double m_processors = 1;
    double m_bytesPerSecond = 1;
    double m_launch = 0;
    double m_ramp = 0; ///< steps along the inner dimension
};

} // namespace planloom::cost
