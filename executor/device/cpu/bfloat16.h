// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/kernel_support.h"

#include <cstdint>
#include <functional>

namespace planloom::device {

/// A bfloat16 as it lies in memory: the upper half of a float32.
using BFloat16Bits = std::uint16_t;

using KernelMaker = std::function<Made(const Request &)>;

/// A kernel for arguments of which some are BF16, by a kernel for float32 and conversions around it. @p elementwise:
/// every argument has as many elements as the others and element i of the outputs depends on elements i only; then
/// pieces are converted in cache, else whole tensors in memory beside the arena, which the kernels of one thread share.
/// @p make makes the float32 kernel.
Made makeConverting(const Request &request, bool elementwise, const KernelMaker &make);

/// Cast between float32 and bfloat16.
Made makeHalfCast(const Request &request);

} // namespace planloom::device
