// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace planloom::memory {

/// Of files in the host tier: addresses, offsets and lengths of copies past the page cache are whole ones, in bytes.
inline constexpr std::int64_t kHostBlock = 4096;

/// @p bytes, 0 or more, with the rest of their last block.
constexpr std::int64_t wholeHostBlocks(std::int64_t bytes)
{
    return (bytes + kHostBlock - 1) / kHostBlock * kHostBlock;
}

} // namespace planloom::memory
