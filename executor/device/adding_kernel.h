// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/kernel.h"

namespace planloom::device {

/// A kernel that can also add its result to its output: a weight's gradient goes directly into its accumulator, without
/// a separate pass over both. Its operator has one output, of float32.
class AddingKernel : public Kernel {
public:
    /// As run(), but adds the result to outputs[0].
    virtual void add(std::span<const void *const> inputs, std::span<void *const> outputs) = 0;
};

} // namespace planloom::device
