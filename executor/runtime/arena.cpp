// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/arena.h"

namespace planloom::runtime {

Result<Arena> Arena::allocate(device::Device &device, std::int64_t bytes)
{
    auto memory = device.allocate(device::Space::Device, bytes);
    if (!memory)
        return memory.error();
    Arena arena;
    arena.m_memory = std::move(*memory);
    return arena;
}

} // namespace planloom::runtime
