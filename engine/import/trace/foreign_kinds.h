// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/trace/trace.h"

#include <string_view>
#include <vector>

namespace planloom::import {

/// Kinds of slices of other programs: the standard ones, those of PyTorch's profiler, and a row for each further
/// category of a file, at most 200 in all.
class ForeignKinds {
public:
    ForeignKinds();
    /// By the category, and for kernels of NCCL by the name.
    trace::Kind of(std::string_view category, std::string_view name);
    [[nodiscard]] const std::vector<trace::KindInfo> &table() const { return m_kinds; }

private:
    std::vector<trace::KindInfo> m_kinds;
};

} // namespace planloom::import
