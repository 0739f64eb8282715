// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/compute_context.h"

#include <vector>

namespace planloom::runtime {

/// Reads the losses of a step's micro-batches back from the device, without waiting for any. Thread contract: one
/// thread.
class LossReader {
public:
    /// For a stage with @p microBatches. Errors: those of Device::allocate.
    static Result<LossReader> create(device::Device &device, std::size_t microBatches, std::int64_t globalBatch);

    /// @p microBatch has @p samples, whose mean loss is at @p address when the queue gets there.
    void read(device::Queue &queue, std::int32_t microBatch, const std::byte *address, std::int64_t samples);
    /// The contribution of the losses read since the last call to the mean of the global batch. The queue must have
    /// ended the reads.
    double take();

private:
    struct Pending {
        std::int32_t microBatch = 0;
        std::int64_t samples = 0;
    };
    double m_globalBatch = 1;
    device::Memory m_values; ///< a float per micro-batch
    std::vector<Pending> m_pending;
};

} // namespace planloom::runtime
