// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace planloom {

/// CRC-32C (Castagnoli; RFC 3720 appendix B.4) of @p bytes, continuing the checksum @p before (0 at the start). Uses
/// the processor's instruction where it has one: some 8 GB/s.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

namespace detail {
std::uint32_t crc32cByTable(std::span<const std::byte> bytes, std::uint32_t before);
} // namespace detail

} // namespace planloom
