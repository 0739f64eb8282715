// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/kernel.h"

namespace planloom::device {

/// A kernel that can also add its result to what is there: a weight's gradient goes straight into its accumulator, without a pass of its own
/// over both. Its operator has one output, of float32.
class AddingKernel : public Kernel {
public:
    /// As run(), but outputs[0] += what run() would write there.
    virtual void add(std::span<const void *const> inputs, std::span<void *const> outputs) = 0;
};

} // namespace planloom::device
