// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/overlay/expected.h"

#include <optional>
#include <string_view>

namespace planloom::overlay {

/// Whether the sizes of a call's inputs, as PyTorch's profiler records them ("Input Dims: [[8, 16], [16, 64]]" of its
/// arguments), have those of the parameters of two dimensions or more that @p unit reads, as they are or transposed.
/// Nothing: the arguments have no sizes, or the unit no such parameter.
std::optional<bool> sizesAgree(const graph::Graph &graph, const Unit &unit, std::string_view arguments);

} // namespace planloom::overlay
