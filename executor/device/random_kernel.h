// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/kernel.h"

#include <cstdint>
#include <string_view>

namespace planloom::device {

/// A kernel that draws random numbers: DeviceKernel::kDraws. begin() is called before each run(), the recomputed and
/// the backward one with the forward one's Draw. Before the first begin() it is in inference.
class RandomKernel : public Kernel {
public:
    virtual void begin(const Draw &draw) = 0;
};

/// The key of everything that @p name draws in one step.
std::uint64_t drawKey(const Draw &draw, std::string_view name);
/// Number @p counter of a key's sequence, uniform in [0, 2^32).
std::uint32_t drawNumber(std::uint64_t key, std::uint64_t counter);

} // namespace planloom::device
