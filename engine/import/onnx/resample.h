// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/onnx/steps.h"

namespace planloom::import {

/// Resize and Upsample, an axis at a time: Gather for the nearest element, a product with a constant matrix of weights
/// else.
void resize(Steps &s);
/// Einsum of any equation: diagonals by Gather, lone indices by ReduceSum, then MatMul of two operands at a time.
void einsum(Steps &s);

} // namespace planloom::import
