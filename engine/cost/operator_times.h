// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/cost.h"
#include "engine/cost/device_model.h"
#include "engine/cost/work.h"

#include <optional>
#include <string>
#include <vector>

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

/// The times of a model's operators one by one: those that CostModel adds up over layers. Immutable; profile and
/// cluster must outlive it.
class OperatorTimes {
public:
    /// As CostModel has them. Cost: O(operators).
    OperatorTimes(const graph::Graph &graph, const cluster::Cluster &cluster, const Profile *profile, bool half);
    /// Of the model of @p costs, which must outlive it.
    explicit OperatorTimes(const CostModel &costs);

    /// Operator @p op for @p samples samples (a fraction is allowed) on a device of type index @p type. Cost: O(kernels
    /// of the operator).
    [[nodiscard]] Seconds forward(OpId op, double samples, std::size_t type) const
    {
        return seconds(op.index(), samples, type, false);
    }
    /// Its gradients; 0 where it has none.
    [[nodiscard]] Seconds backward(OpId op, double samples, std::size_t type) const
    {
        return seconds(op.index(), samples, type, true);
    }
    /// Model of the GPU of type index @p type, if it has one.
    [[nodiscard]] const std::optional<DeviceModel> &model(std::size_t type) const { return m_models[type]; }
    /// Factor of the profile's times on type index @p type; 0 where they do not hold, or there is no profile.
    [[nodiscard]] double scale(std::size_t type) const { return m_scale[type]; }

private:
    [[nodiscard]] Seconds seconds(std::size_t op, double samples, std::size_t type, bool backward) const;

    const cluster::Cluster &m_cluster;
    std::vector<OpFigures> m_ops;
    Models m_models;
    std::vector<double> m_scale; ///< per device type
};

} // namespace planloom::cost
