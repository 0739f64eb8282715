// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/operators.h"

#include <string>
#include <vector>

namespace planloom::graph {

using Infos = std::vector<TensorInfo>;

// The table's rows, a function per operators_*.cpp. Forward and gradient types of a family stand together.
std::vector<OpSchema> elementwiseSchemas();
std::vector<OpSchema> matrixSchemas();
std::vector<OpSchema> normalizationSchemas();
std::vector<OpSchema> convolutionSchemas();
std::vector<OpSchema> shapingSchemas();
std::vector<OpSchema> reductionSchemas();
std::vector<OpSchema> lossSchemas();
std::vector<OpSchema> recurrentSchemas();
std::vector<OpSchema> scatterSchemas();
std::vector<OpSchema> unfusedSchemas(); ///< planned and simulated only: no kernels
std::vector<OpSchema> flatSchemas();  ///< only rewrites emit these
std::vector<OpSchema> fusedSchemas(); ///< likewise: several operators in one; of the next two
std::vector<OpSchema> fusedProductSchemas();
std::vector<OpSchema> fusedNormalizationSchemas();
std::vector<OpSchema> boxingSchemas(); ///< only rewrites emit these; they are not differentiated

// What several families need.

/// Polynomial or table work of one transcendental function, in floating-point operations; only its order of magnitude matters,
/// since element-wise operators are bound by memory.
inline constexpr double kTranscendental = 8;

/// The common shape of two under numpy's broadcasting. Error: BadInput with both shapes.
Result<Shape> broadcast(const Shape &a, const Shape &b);
/// @p axis of rank @p rank counted from the end if negative. Error: BadInput.
Result<std::size_t> axisOf(std::int64_t axis, std::size_t rank);
/// Several axes, sorted; all of them if @p axes is empty. Errors: out of range, repeated.
Result<std::vector<std::size_t>> axesOf(const std::vector<std::int64_t> &axes, std::size_t rank);
/// Attributes `shape` (sizes) and `batch_axis` (the one that is multiplied by the batch, or -1): shapes of gradients.
Result<Shape> shapeOfAttributes(const Op &op);

/// Output 0 is like input 0.
Result<Infos> likeFirst(const OpView &view);

/// The type that sums over rows (gradients of parameters) are kept in: float32 where bfloat16 is added up.
DType sumType(DType type);

/// FLOPs: @p perElement for each element of the first output (or input).
std::function<double(const OpView &, const Infos &, std::int64_t)> perOutput(double perElement);
std::function<double(const OpView &, const Infos &, std::int64_t)> perInput(double perElement);
double noFlops(const OpView &, const Infos &, std::int64_t);

} // namespace planloom::graph
