// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/formula_update.h"

#include <optional>

namespace planloom::cuda {

/// Ranges that are updated together, AdamW and SGD by a kernel of their own; their list lies in device memory.
class ParameterUpdates final : public device::Updates {
public:
    /// Errors: Unsupported (a formula that is too long), those of the device.
    static Result<std::unique_ptr<device::Updates>> make(CudaDevice &device, const update::Formula &formula,
                                                         std::span<const device::UpdateRange> ranges);
    void update(CudaQueue &queue, const device::UpdateStep &how);
    void squaredNorm(CudaQueue &queue, double *host);

private:
    explicit ParameterUpdates(const update::Formula &formula) : m_formula(formula) {}
    void adamW(CudaQueue &queue, const device::UpdateStep &how);

    update::Formula m_formula;
    ParameterRanges m_ranges;
    device::Memory m_list;
    device::Memory m_sums;               ///< doubles: per block, then their sum
    std::optional<FormulaUpdate> m_rule; ///< of other rules
};

} // namespace planloom::cuda
