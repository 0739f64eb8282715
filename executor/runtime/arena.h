// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace planloom::runtime {

/// The one block of memory that a rank computes in, cleared, and how much of it was really used: the end of the furthest range that was
/// handed to a kernel, communicator or optimizer, in the layout's granules of 64 bytes.
/// Thread contract: one thread.
class Arena {
public:
    static constexpr std::int64_t kGranule = 64;

    /// Error: Failed, if the machine does not have @p bytes.
    static Result<Arena> allocate(std::int64_t bytes);

    [[nodiscard]] std::int64_t bytes() const { return m_bytes; }
    [[nodiscard]] std::int64_t peak() const { return m_peak; }

    /// The address of [offset, offset + bytes), noted as used.
    std::byte *use(std::int64_t offset, std::int64_t bytes)
    {
        m_peak = std::max(m_peak, (offset + bytes + kGranule - 1) / kGranule * kGranule);
        return m_data.get() + offset;
    }

private:
    struct Free {
        void operator()(std::byte *data) const { std::free(data); }
    };
    std::unique_ptr<std::byte[], Free> m_data;
    std::int64_t m_bytes = 0;
    std::int64_t m_peak = 0;
};

} // namespace planloom::runtime
