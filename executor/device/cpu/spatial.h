// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/kernel_support.h"

namespace planloom::device {

/// How a window slides over the spatial dimensions of (N, C, spatial...): the attributes that convolution and pooling
/// share.
struct Sliding {
    Dims kernel, strides, padBegin, padEnd, dilations;

    /// Positions of the window over @p size input elements along @p axis.
    [[nodiscard]] std::int64_t positions(std::size_t axis, std::int64_t size) const;
};

/// Reads strides, pads and dilations for input dims @p x; @p kernel is the window's size. Errors: Unsupported (not one
/// to three spatial dimensions), BadInput.
Result<Sliding> slidingOf(const Request &request, const Dims &x, const Dims &kernel);

} // namespace planloom::device
