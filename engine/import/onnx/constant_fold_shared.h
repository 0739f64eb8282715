// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/onnx/known_value.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

// Shared by constant_folding.cpp and constant_fold_moves.cpp.
namespace planloom::import {

using KnownInputs = std::vector<const KnownValue *>;
using Folded = std::optional<KnownValue>;

/// How many elements @p dims hold; -1: more than are folded, or a negative size.
std::int64_t elementsOf(const std::vector<std::int64_t> &dims);

/// Makes a value of shape @p dims, each element from its multi-index. Nothing if there are too many.
Folded buildKnown(graph::DType type, const std::vector<std::int64_t> &dims,
                  const std::function<Number(const std::vector<std::int64_t> &)> &element);

// Operators that move elements but compute nothing.
Folded foldGather(const graph::Op &op, const KnownInputs &in);
Folded foldConcat(const graph::Op &op, const KnownInputs &in);
Folded foldSlice(const graph::Op &op, const KnownInputs &in);
Folded foldTranspose(const graph::Op &op, const KnownInputs &in);
Folded foldReshape(const graph::Op &op, const KnownInputs &in);
Folded foldUnsqueeze(const graph::Op &op, const KnownInputs &in);
Folded foldSqueeze(const graph::Op &op, const KnownInputs &in);
Folded foldTrilu(const graph::Op &op, const KnownInputs &in);

} // namespace planloom::import
