// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/device.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace planloom::runtime {

/// The one block of a device's memory that a rank computes in, cleared, and how much of it was really used: the end of
/// the furthest range that was handed to a kernel, communicator or optimizer, in the layout's granules of 64 bytes.
/// Thread contract: one thread.
class Arena {
public:
    static constexpr std::int64_t kGranule = 64;

    Arena() = default;
    /// Error: Failed, if @p device does not have @p bytes.
    static Result<Arena> allocate(device::Device &device, std::int64_t bytes);

    [[nodiscard]] std::int64_t bytes() const { return m_memory.bytes(); }
    [[nodiscard]] std::int64_t peak() const { return m_peak; }

    /// The address of [offset, offset + bytes) on the device, noted as used.
    std::byte *use(std::int64_t offset, std::int64_t bytes)
    {
        m_peak = std::max(m_peak, (offset + bytes + kGranule - 1) / kGranule * kGranule);
        return m_memory.data() + offset;
    }

private:
    device::Memory m_memory;
    std::int64_t m_peak = 0;
};

} // namespace planloom::runtime
