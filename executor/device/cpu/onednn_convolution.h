// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cpu/onednn.h"

namespace planloom::device::onednn {

/// Sizes of a convolution over one or two spatial dimensions, channels first; `weight` is (K, C / groups, ...).
struct Convolution {
    std::vector<std::int64_t> x, weight, y;
    std::vector<std::int64_t> strides, padBegin, padEnd, dilations;
    std::int64_t groups = 1;
    bool bias = false;
    bool blockedX = false, blockedY = false; ///< the images come in blocks of channels
};
Result<Primitive> convolution(const Convolution &how);              ///< arguments: x, weight, y, bias if any
Result<Primitive> convolutionInputGradient(const Convolution &how); ///< arguments: dx (written), weight, dy
Result<Primitive> convolutionWeightGradient(
    const Convolution &how); ///< arguments: x, dweight (written), dy, dbias (written) if any

/// Channels in a block of the layout that convolutions are fastest with on this processor: 16 or 8.
std::int64_t convolutionBlock();

} // namespace planloom::device::onednn
