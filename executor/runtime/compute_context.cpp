// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/compute_context.h"

#include "engine/base/backoff.h"

#include <algorithm>

namespace planloom::runtime {

Status drain(device::Queue &queue, device::Event &event, std::chrono::nanoseconds deadline)
{
    queue.record(event);
    return waitFor(event, deadline);
}

Status waitFor(device::Event &event, std::chrono::nanoseconds deadline)
{
    const auto end = std::chrono::steady_clock::now() + deadline;
    for (Backoff backoff;; backoff.pause()) {
        const Result<bool> done = event.poll();
        if (!done)
            return done.error();
        if (*done)
            return {};
        if (std::chrono::steady_clock::now() > end)
            return failed("the device did not end its work within "
                          + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(deadline).count())
                          + " s; look at the machine's log for errors of the device");
    }
}

void SlotAddresses::select(std::int32_t microBatch)
{
    const program::Slots &slots = m_body.slotTable[static_cast<std::size_t>(microBatch)];
    for (std::size_t area = 0; area < program::kAreas; ++area) {
        const program::Pool &pool = m_body.pools[area];
        m_base[area] = pool.begin + std::max(slots.slot[area], 0) * pool.slotBytes;
    }
}

Result<Staging> Staging::create(device::Device &device, std::int64_t bytes)
{
    Staging staging;
    if (device.hostAddressable())
        return staging;
    auto buffer = device.allocate(device::Space::Host, bytes);
    if (!buffer)
        return buffer.error();
    staging.m_direct = false;
    staging.m_buffer = std::move(*buffer);
    return staging;
}

} // namespace planloom::runtime
