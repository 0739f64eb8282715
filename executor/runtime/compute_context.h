// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/program.h"
#include "executor/runtime/arena.h"
#include "executor/runtime/call_list.h"
#include "executor/runtime/host_tier.h"
#include "executor/runtime/kernel_marks.h"
#include "executor/runtime/operator_times.h"

#include <chrono>

namespace planloom::runtime {

/// Device and memory of a rank's stages; borrowed.
struct ComputeContext {
    device::Device &device;
    device::Queue &queue;
    Arena &arena;
    std::chrono::nanoseconds deadline = std::chrono::seconds(60); ///< for waits on the device
    KernelMarks *marks = nullptr;                                 ///< where what the device runs is recorded
    device::Queue *copies = nullptr; ///< brings samples, beside the commands of `queue`; nullptr: `queue` does
    OperatorTimes *times = nullptr;  ///< of the rank's stage, where they are measured
    HostTier *host = nullptr;        ///< of what a memory policy has there

    /// Where the range of @p held that has place @p offset in the arena lies in the host tier; -1: it is in the arena.
    [[nodiscard]] std::int64_t hostPlaceOf(const program::PersistentTensor &held, std::int64_t offset) const
    {
        return host == nullptr ? -1 : host->placeOf(held, offset);
    }
};

/// Polls @p event until it is complete. Errors: Failed (the device stopped, or @p deadline has passed).
Status waitFor(device::Event &event, std::chrono::nanoseconds deadline);
/// Until all commands that @p queue has are done; records @p event.
Status drain(device::Queue &queue, device::Event &event, std::chrono::nanoseconds deadline);

/// Addresses of a stage's tensors in the arena, in the slots of one micro-batch.
class SlotAddresses {
public:
    SlotAddresses(const program::Body &body, Arena &arena) : m_body(body), m_arena(arena) {}

    void select(std::int32_t microBatch);
    [[nodiscard]] std::byte *at(const Place &place) const
    {
        return m_arena.use(m_base[place.area] + place.offset, place.bytes);
    }
    [[nodiscard]] std::byte *accumulator(const Accumulation &accumulation) const
    {
        return m_arena.use(accumulation.accumulator, accumulation.elements * static_cast<std::int64_t>(sizeof(float)));
    }

private:
    const program::Body &m_body;
    Arena &m_arena;
    std::int64_t m_base[program::kAreas] = {}; ///< arena offset of each area's slot
};

/// Host memory for ranges of a device's memory that the host fills or reads: a buffer and copies, or, where the device
/// is host-addressable, the range itself.
class Staging {
public:
    /// For ranges of up to @p bytes. @p device must outlive it.
    static Result<Staging> create(device::Device &device, std::int64_t bytes);

    /// The host's copy of the range at @p address.
    [[nodiscard]] std::byte *host(std::byte *address) const { return m_direct ? address : m_buffer.data(); }
    void upload(device::Queue &queue, std::byte *address, std::int64_t bytes) const
    {
        if (!m_direct)
            queue.copyToDevice(address, m_buffer.data(), bytes);
    }
    void download(device::Queue &queue, const std::byte *address, std::int64_t bytes) const
    {
        if (!m_direct)
            queue.copyToHost(m_buffer.data(), address, bytes);
    }

private:
    bool m_direct = true;
    device::Memory m_buffer;
};

} // namespace planloom::runtime
