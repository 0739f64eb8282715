// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/cost.h"
#include "engine/cost/device_model.h"
#include "engine/cost/link_collectives.h"
#include "engine/cost/work.h"

#include <shared_mutex>

// Precomputed tables of a CostModel; for engine/cost only.
namespace planloom::cost {

/// What an operator costs, as functions of the samples.
struct OpFigures {
    Affine forward;
    Affine backward;
    Affine forwardBytes;
    Affine backwardBytes;
    std::string dtype;
    bool onHost = false;                 ///< where the device is a GPU
    Affine copies;                       ///< there and back, of the forward pass
    std::vector<KernelWork> forwardWork; ///< where a device of the cluster has a model
    std::vector<KernelWork> backwardWork;
    const std::vector<OpTime> *measured = nullptr; ///< of the profile
    std::vector<OpTime> declared;                  ///< of a ProfiledLayer without profile
};

using Models = std::vector<std::optional<DeviceModel>>; ///< by type index of the cluster

/// Bytes of parameters over layer ranges: those of one layer by prefix sums, the few that several layers share one by
/// one.
struct ParameterBytes {
    struct Shared {
        std::vector<std::size_t> layers;
        std::int64_t bytes = 0;
    };
    std::vector<std::int64_t> before;
    std::vector<Shared> shared;
};

/// Times of layers [0, k) for k = 0..n, made once per slice size and device type. Thread-safe: readers share the kept
/// sums.
struct CostModel::PrefixSums {
    struct Sums {
        std::vector<double> forward;
        std::vector<double> backward;
    };
    using Key = std::pair<std::size_t, double>;

    std::vector<OpFigures> ops;
    Models models;
    std::vector<double> scale; ///< per device type, see profileScale
    ParameterBytes parameters;
    LinkCache links;
    mutable std::shared_mutex guard;
    mutable std::map<Key, std::shared_ptr<const Sums>> kept;
    [[nodiscard]] double opTime(const OpFigures &op, std::size_t type, const cluster::DeviceType &device,
                                double samples, bool backward) const;
    [[nodiscard]] Sums make(const graph::LayerView &layers, std::size_t type, const cluster::DeviceType &device,
                            double samples) const;
    [[nodiscard]] std::shared_ptr<const Sums> at(const graph::LayerView &layers, std::size_t type,
                                                 const cluster::DeviceType &device, double samples) const;
};

} // namespace planloom::cost
