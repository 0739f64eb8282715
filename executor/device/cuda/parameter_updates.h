// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/cuda_device.h"

namespace planloom::cuda {

/// Ranges that one kernel updates, by AdamW or SGD; their list lies in device memory.
class ParameterUpdates final : public device::Updates {
public:
    /// Errors: Unsupported (another rule), those of the device.
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
    device::Memory m_sums; ///< doubles: per block, then their sum
};

} // namespace planloom::cuda
