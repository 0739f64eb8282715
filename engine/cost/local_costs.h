// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cost/cost.h"
#include "engine/cost/device_model.h"
#include "engine/cost/signature.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace planloom::cost {

/// The times of a local graph's operators: the differentiated, sharded, rewritten graph that a rank executes, of which
/// every forward and gradient operator is separate. Signatures are looked up once, when it is made;
/// communicating operators cost nothing here. Immutable; @p costs must outlive it.
class LocalCosts {
public:
    LocalCosts(const CostModel &costs, const graph::Graph &local);
    /// Only of operators [first, last).
    LocalCosts(const CostModel &costs, const graph::Graph &local, std::size_t first, std::size_t last);
    ~LocalCosts();
    LocalCosts(LocalCosts &&) noexcept;

    /// Operators [first, last), one after the other, for @p samples samples on a device of type index @p type.
    [[nodiscard]] Seconds seconds(std::size_t first, std::size_t last, double samples, std::size_t type) const;
    /// Kernels of a run of operators: their own time, without waiting for launches, and how many.
    struct Kernels {
        Seconds seconds;
        std::size_t count = 0;
    };
    [[nodiscard]] Kernels kernelsOf(std::size_t first, std::size_t last, double samples, std::size_t type) const;
    /// What a process takes to launch one kernel (the profile's kernel_launch_seconds); 0 where it need not wait.
    [[nodiscard]] Seconds launch(std::size_t type) const;
    /// True if the profile knows kernels of this graph: its times are then finer than CostModel::forward and backward.
    [[nodiscard]] bool measured() const { return m_covered > 0; }
    /// Operators whose kernel the profile knows.
    [[nodiscard]] std::size_t covered() const { return m_covered; }
    /// True if type index @p type has a model of its GPU: times are then finer than a layer's, too.
    [[nodiscard]] bool modelled(std::size_t type) const { return m_models[type].has_value(); }

private:
    struct Entry;
    const CostModel &m_costs;
    std::size_t m_first;
    std::size_t m_covered = 0;
    std::vector<std::optional<DeviceModel>> m_models; ///< by type index of the cluster
    std::vector<Entry> m_entries;
};

/// Linear between two measured sample counts, in proportion to the nearest outside of them.
double interpolated(const std::vector<KernelTime> &times, double samples);

} // namespace planloom::cost
