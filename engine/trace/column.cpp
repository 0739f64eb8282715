// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/column.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace planloom::trace {
namespace {

/// Below it a copy costs less than the calls of the kernel.
constexpr std::size_t kLeastMapped = std::size_t{256} << 10;

void *checkedBlock(void *made, const void *failed)
{
    if (made == failed)
        throw std::bad_alloc();
    return made;
}

} // namespace

void *grownBlock(void *data, std::size_t bytes, std::size_t more)
{
    if (more < kLeastMapped)
        return checkedBlock(std::realloc(data, more), nullptr);
    if (bytes >= kLeastMapped)
        return checkedBlock(::mremap(data, bytes, more, MREMAP_MAYMOVE), MAP_FAILED);
    void *mapped =
        checkedBlock(::mmap(nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), MAP_FAILED);
    if (bytes > 0)
        std::memcpy(mapped, data, bytes);
    std::free(data);
    return mapped;
}

void freeBlock(void *data, std::size_t bytes)
{
    if (bytes >= kLeastMapped)
        ::munmap(data, bytes);
    else
        std::free(data);
}

} // namespace planloom::trace
