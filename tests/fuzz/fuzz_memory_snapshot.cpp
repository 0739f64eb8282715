// SPDX-License-Identifier: Apache-2.0
#include "engine/import/snapshot/memory_snapshot.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

using namespace planloom;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const auto made = import::readMemorySnapshot({reinterpret_cast<const char *>(data), size}, "snap.pickle");
    if (!made)
        return 0;
    for (std::int32_t device = 0; device < made->devices(); ++device) {
        const trace::DeviceMemory memory = trace::deviceMemory(*made, device);
        // The peak is what its blocks add up to, and the highest level.
        std::int64_t sum = 0;
        const auto alive = trace::aliveAfter(*made, device, memory.peakEvent);
        for (const trace::LiveBlock &block : alive)
            sum += block.requested;
        std::int64_t highest = 0;
        for (const trace::AllocationLevel &level : trace::levelsOf(*made, device))
            highest = std::max(highest, level.inUse);
        if (sum != memory.peak || highest != memory.peak)
            std::abort();
        for (const trace::FrameUse &use : trace::byFrame(*made, alive))
            (void)made->frameText(use.frame);
    }
    return 0;
}
