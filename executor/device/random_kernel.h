// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/kernel.h"
#include "executor/device/random_numbers.h"

#include <string_view>

namespace planloom::device {

/// A kernel that draws random numbers: DeviceKernel::kDraws. begin() is called before each run(), the recomputed and
/// the backward one with the forward one's Draw. Before the first begin() it is in inference.
class RandomKernel : public Kernel {
public:
    virtual void begin(const Draw &draw) = 0;
};

/// The key of everything that @p name draws in one step.
inline std::uint64_t drawKey(const Draw &draw, std::string_view name)
{
    std::uint64_t hash = 0xcbf29ce484222325ULL; // FNV-1a over the name, then over seed and step
    for (const char letter : name)
        hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
    for (const std::int64_t number : {draw.seed, draw.step})
        for (int byte = 0; byte < 8; ++byte)
            hash = (hash ^ (static_cast<std::uint64_t>(number) >> (8 * byte) & 0xFFU)) * 0x100000001b3ULL;
    return hash;
}

/// Dropout of a tensor of @p elements in the slice that @p draw describes; outside training everything stays as it is.
/// Element i of the slice has the number that it has in the global batch.
inline DropRule dropRule(const Draw &draw, std::string_view name, double ratio, std::int64_t elements)
{
    if (!draw.training)
        return {};
    const std::int64_t perSample = elements / (draw.samples > 0 ? draw.samples : 1);
    return {drawKey(draw, name), static_cast<std::uint64_t>(draw.firstSample) * static_cast<std::uint64_t>(perSample),
            static_cast<std::uint32_t>(ratio * 0x1.0p32), static_cast<float>(1.0 / (1.0 - ratio))};
}

} // namespace planloom::device
