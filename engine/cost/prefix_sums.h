// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/cost.h"
#include "engine/cost/link_collectives.h"
#include "engine/cost/operator_times.h"

#include <shared_mutex>
#include <utility>

// Precomputed tables of a CostModel; for engine/cost only.
namespace planloom::cost {

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

    explicit PrefixSums(OperatorTimes times) : operators(std::move(times)) {}

    OperatorTimes operators;
    ParameterBytes parameters;
    LinkCache links;
    mutable std::shared_mutex guard;
    mutable std::map<Key, std::shared_ptr<const Sums>> kept;
    [[nodiscard]] Sums make(const graph::LayerView &layers, std::size_t type, double samples) const;
    [[nodiscard]] std::shared_ptr<const Sums> at(const graph::LayerView &layers, std::size_t type,
                                                 double samples) const;
};

} // namespace planloom::cost
