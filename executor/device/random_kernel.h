// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/kernel.h"

#include <cstdint>
#include <string_view>

namespace planloom::device {

/// What decides the random numbers of a pass. Nothing in it depends on the layout of ranks, and a run that goes on from a checkpoint
/// says the same again.
struct Draw {
    std::int64_t seed = 0;        ///< the run's
    std::int64_t step = 0;        ///< optimizer step
    std::int64_t firstSample = 0; ///< of the slice at hand, within the global batch
    std::int64_t samples = 1;     ///< in the slice
    bool training = false;        ///< false: as in inference, nothing is drawn
};

/// A kernel that draws random numbers. Whoever runs kernels finds these by dynamic_cast when they are made, and calls begin() before
/// each run(), the recomputed and the backward one with what the forward one was told. Before the first begin() it is in inference.
class RandomKernel : public Kernel {
public:
    virtual void begin(const Draw &draw) = 0;
};

/// The key of everything that @p name draws in one step.
std::uint64_t drawKey(const Draw &draw, std::string_view name);
/// Number @p counter of a key's sequence, uniform in [0, 2^32).
std::uint32_t drawNumber(std::uint64_t key, std::uint64_t counter);

} // namespace planloom::device
