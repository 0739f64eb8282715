// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/loss_reader.h"

namespace planloom::runtime {

Result<LossReader> LossReader::create(device::Device &device, std::size_t microBatches, std::int64_t globalBatch)
{
    auto memory = device.allocate(device::Space::Host, static_cast<std::int64_t>(microBatches * sizeof(float)));
    if (!memory)
        return memory.error();
    LossReader reader;
    reader.m_globalBatch = static_cast<double>(globalBatch);
    reader.m_values = std::move(*memory);
    reader.m_pending.reserve(microBatches);
    return reader;
}

void LossReader::read(device::Queue &queue, std::int32_t microBatch, const std::byte *address, std::int64_t samples)
{
    queue.copyToHost(reinterpret_cast<float *>(m_values.data()) + microBatch, address, sizeof(float));
    m_pending.push_back({microBatch, samples});
}

double LossReader::take()
{
    double sum = 0;
    for (const Pending &pending : m_pending)
        sum += static_cast<double>(reinterpret_cast<const float *>(m_values.data())[pending.microBatch])
            * static_cast<double>(pending.samples) / m_globalBatch;
    m_pending.clear();
    return sum;
}

} // namespace planloom::runtime
