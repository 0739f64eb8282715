// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/arena.h"

#include "engine/base/units.h"

#include <cstring>
#include <sys/mman.h>

namespace planloom::runtime {

namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

} // namespace

Result<Arena> Arena::allocate(std::int64_t bytes)
{
    Arena arena;
    arena.m_bytes = bytes;
    const std::int64_t alignment = bytes >= kHugePage ? kHugePage : kGranule;
    const auto whole = static_cast<std::size_t>((std::max(bytes, alignment) + alignment - 1) / alignment * alignment);
    arena.m_data.reset(static_cast<std::byte *>(std::aligned_alloc(static_cast<std::size_t>(alignment), whole)));
    if (!arena.m_data)
        return failed("this rank needs " + format(Bytes(bytes)) + " of memory, and the machine does not give it; use more stages, recompute or a smaller batch");
#ifdef MADV_HUGEPAGE
    // Fewer page faults while it is cleared and fewer misses of the address cache ever after; where the system refuses, nothing is lost.
    if (alignment == kHugePage)
        ::madvise(arena.m_data.get(), whole, MADV_HUGEPAGE);
#endif
    std::memset(arena.m_data.get(), 0, whole);
    return arena;
}

} // namespace planloom::runtime
