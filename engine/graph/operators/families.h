// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/operators/backward.h"
#include "engine/graph/operators/operators.h"

#include <string>
#include <vector>

namespace planloom::graph {

using Infos = std::vector<TensorInfo>;

// The registry's rows, a function per file of this folder. Forward and gradient types of a family stand together.
std::vector<Operator> elementwiseOperators();
std::vector<Operator> matrixOperators();
std::vector<Operator> normalizationOperators();
std::vector<Operator> convolutionOperators();
std::vector<Operator> shapingOperators();
std::vector<Operator> indexingOperators();
std::vector<Operator> reductionOperators();
std::vector<Operator> lossOperators();
std::vector<Operator> recurrentOperators();
std::vector<Operator> unfusedOperators();
std::vector<Operator> flatOperators();
std::vector<Operator> boxingOperators();
std::vector<Operator> proximalOperators();
std::vector<Operator> sparseOperators();

// Helpers of several families.

/// Traits that many rows have.
inline constexpr OpTraits kMemoryBound{.cost = CostClass::MemoryBound};
inline constexpr OpTraits kGradientPass{.cost = CostClass::MemoryBound, .origin = Origin::Gradient};
inline constexpr OpTraits kRewritten{.cost = CostClass::MemoryBound, .origin = Origin::Rewrite};

/// Polynomial or table work of one transcendental function, in floating-point operations; only its order of magnitude
/// matters, since element-wise operators are bound by memory.
inline constexpr double kTranscendental = 8;

/// The common shape of two under numpy's broadcasting. Error: BadInput with both shapes.
Result<Shape> broadcast(const Shape &a, const Shape &b);
/// @p axis of rank @p rank counted from the end if negative. Error: BadInput.
Result<std::size_t> axisOf(std::int64_t axis, std::size_t rank);
/// Several axes, sorted; all of them if @p axes is empty. Errors: out of range, repeated.
Result<std::vector<std::size_t>> axesOf(const std::vector<std::int64_t> &axes, std::size_t rank);
/// Attributes `shape` (sizes) and `batch_axis` (the one that is multiplied by the batch, or -1): shapes of gradients.
Result<Shape> shapeOfAttributes(const Op &op);
/// Input 0's type with the shape of the attributes.
Result<Infos> inferFromAttributes(const OpView &view);

/// A table's rows at indices along an axis; ShardGather's, too.
Result<Infos> inferGather(const OpView &view);
/// Output 0 is like input 0.
Result<Infos> likeFirst(const OpView &view);
/// One output of input 0\'s type.
Infos typedLikeFirst(const OpView &view, std::vector<Dim> dims);
/// Output 0 is like input 1.
Result<Infos> likeSecond(const OpView &view);

/// The type that sums over rows (gradients of parameters) are kept in: float32 where bfloat16 is added up.
DType sumType(DType type);

/// FLOPs: @p perElement for each element of the first output (or input).
FlopsRule perOutput(double perElement);
FlopsRule perInput(double perElement);

/// Gradient rules: TYPEGrad(dy, y) or TYPEGrad(dy, x) or TYPEGrad(dy, x, y), with the attributes of the operator.
void gradientFromOutput(Backward &b);
void gradientFromInput(Backward &b);
void gradientFromBoth(Backward &b);
/// @p attributes with @p more in them.
Attributes with(Attributes attributes, const Attributes &more);

} // namespace planloom::graph
