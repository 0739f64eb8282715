// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/cuda_device.h"

#include <memory>
#include <vector>

namespace planloom::cuda {

/// Any update rule over ranges of parameters: scalars per range by one kernel, elements by another, in one phase or,
/// where the rule has norms, in two. A phase keeps a number per node of an element in the thread's own memory.
class FormulaUpdate {
public:
    /// @p onDevice: the ranges without empty ones. Errors: Unsupported (more nodes in a phase, or norms, than a thread
    /// keeps), those of the device.
    static Result<FormulaUpdate> make(CudaDevice &device, const update::Formula &formula,
                                      std::span<const device::UpdateRange> ranges, const ParameterRanges &onDevice);

    void run(CudaQueue &queue, const device::UpdateStep &how);

private:
    /// Rows of the host's tables that lie together there and in the device's sums.
    struct RowRun {
        std::int64_t range = 0, tensor = 0, count = 0;
    };
    std::int64_t m_norms = 0, m_tensors = 0, m_rangeCount = 0;
    FormulaScalars m_scalars;
    std::vector<FormulaPhase> m_phases;
    FormulaSquares m_squares;
    std::vector<RowRun> m_rows; ///< of ranges that count
    double *m_allSquares = nullptr;
    std::vector<std::shared_ptr<device::Memory>> m_kept;
};

} // namespace planloom::cuda
