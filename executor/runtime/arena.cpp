// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/arena.h"

#include "engine/base/units.h"

#include <cstring>

namespace planloom::runtime {

Result<Arena> Arena::allocate(std::int64_t bytes)
{
    Arena arena;
    arena.m_bytes = bytes;
    const auto whole = static_cast<std::size_t>((bytes + kGranule - 1) / kGranule * kGranule);
    arena.m_data.reset(static_cast<std::byte *>(std::aligned_alloc(kGranule, std::max<std::size_t>(whole, kGranule))));
    if (!arena.m_data)
        return failed("this rank needs " + format(Bytes(bytes)) + " of memory, and the machine does not give it; use more stages, recompute or a smaller batch");
    std::memset(arena.m_data.get(), 0, whole);
    return arena;
}

} // namespace planloom::runtime
