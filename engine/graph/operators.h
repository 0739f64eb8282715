// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <functional>
#include <optional>

namespace planloom::graph {

/// Shapes and types of an operator's inputs and, after inference, of its outputs.
struct OpView {
    const Op &op;
    std::vector<const Tensor *> inputs; ///< nullptr: optional input left out
};

struct TensorInfo {
    DType type = DType::F32;
    Shape shape;
};

/// What the language knows of one operator type. One table, in operators.cpp and the operators_*.cpp beside it; a new operator
/// is one entry here and one kernel in executor/device.
struct OpSchema {
    const char *type;
    int minInputs;
    int maxInputs; ///< -1: any number
    /// Output infos from the inputs; empty: the outputs keep what was declared. Error: BadInput that names what does not fit.
    std::function<Result<std::vector<TensorInfo>>(const OpView &)> infer;
    /// Floating-point operations for @p samples; memory traffic is the bytes of inputs and outputs.
    std::function<double(const OpView &, const std::vector<TensorInfo> &outputs, std::int64_t samples)> flops;
};

/// nullptr if the type is unknown.
const OpSchema *findSchema(std::string_view type);
std::vector<std::string> knownTypes();

/// Cost figures of one operator of a graph for @p samples samples.
struct OpCostFigures {
    Flops forward;
    Flops backward;      ///< 0 for what has no gradient
    Bytes forwardBytes;  ///< read + written
    Bytes backwardBytes;
};
OpCostFigures figures(const Graph &graph, OpId op, std::int64_t samples);

/* The operator vocabulary: the contract between this table and the kernels in executor/device. Names and meaning are ONNX's where
   ONNX has the operator; what importers fold to constants (axes, sizes, slices) is an attribute, whatever the opset. Floats are
   float32, indices and labels int64. N is the batch. {a, b=1} are attributes with defaults; (X, B?) inputs, ? optional.

   In mixed precision (precision.h) tensors are bfloat16 wherever the table there says h; an operator's output has the type of its first
   input, but what MatMulWeightGrad, ConvGradWeight, ReduceSumTo and GatherGrad add up is float32 even then, as are Mean, InvStdDev, LogSumExp, Stats.

   FORWARD
   element-wise      Add Sub Mul Div Pow Min Max Mod{fmod=0} Equal Less Greater LessOrEqual GreaterOrEqual And Or Xor (A, B), numpy's
                     broadcasting; Where (C, A, B)
                     Sinh Cosh Asin Acos Atan Asinh Acosh Atanh
                     Neg Abs Sqrt Reciprocal Exp Log Erf Tanh Sigmoid Relu Softplus HardSwish Silu Not Sin Cos Floor Ceil Round Sign
                     Identity LeakyRelu{alpha} Elu{alpha} HardSigmoid{alpha, beta} Gelu{approximate = "tanh" | "none"} Clip{min, max}
                     Cast{to: a name of shape.h} Dropout{ratio}: drops in training only
                     ScatterElements{axis, reduction="none"|"add"|"mul"} ScatterND{reduction}(data, indices, updates)
                     TopK{axis=-1, k, largest=1}(X) -> values, indices, always sorted
   softmax, norms    Softmax{axis} LogSoftmax{axis}
                     LayerNormalization{axis=-1, epsilon}(X, scale, bias?) -> Y, Mean, InvStdDev (sizes before axis, then ones)
                     RMSNormalization{axis=-1, epsilon}(X, scale) -> Y, InvRms
                     BatchNormalization{epsilon, momentum, training_mode=1}(X, scale, bias, mean, variance) -> Y, Mean, InvStdDev:
                     statistics of the slice at hand; the State tensors mean and variance are updated in place;
                     training_mode=0: statistics are mean and variance, which stay; scale, bias and X train. Fused, as rewrites make it:
                     {relu=1}(..., residual?): Y = Relu(normalised + residual)
   products          MatMul{transA=0, transB=0}(A, B): the last two dimensions, others broadcast; transA, transB are ours
                     Gemm{alpha=1, beta=1, transA=0, transB=0}(A, B, C?)
   attention         Attention{heads, kv_heads=heads, causal=0}(QKV (N, T, (heads + 2 kv_heads) D), mask (N, T) int64?)
                     -> Y (N, T, heads D), LogSumExp (N, heads, T); scale 1/sqrt(D); mask 1 = attend; the T x T matrix is never kept
                     RotaryEmbedding{heads, kv_heads, theta}(QKV): rotates query and key heads, halves paired as in LLaMA
   recurrent         LSTM{hidden_size, direction, activations, activation_alpha, activation_beta, clip, input_forget, layout}
                     (X, W, R, B?, sequence_lens?, initial_h?, initial_c?, P?) -> Y, Y_h, Y_c, Gates (D, T, N, 4H), States (D, T, N, H)
                     GRU{..., linear_before_reset}(X, W, R, B?, sequence_lens?, initial_h?) -> Y, Y_h, Gates (D, T, N, 3H), Saved (D, T, N, H)
                     RNN{...}(the same) -> Y, Y_h, Gates (D, T, N, H); `activations` is one text, names separated by commas. Our own
                     outputs are time-major whatever the layout
   images            Conv{kernel_shape, strides, pads, dilations, group}(X, W, B?) over (N, C, L), (N, C, H, W) or (N, C, D, H, W)
                     ConvTranspose{as Conv, shape, batch_axis: of the result}(X, W)
                     MaxPool AveragePool{kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad}
                     MaxPool{indices=0, storage_order=0} -> Y, Indices?
                     GlobalAveragePool GlobalMaxPool
   shapes            Reshape{shape, batch_axis=-1, allowzero=0}: shape[batch_axis] is multiplied by N; one -1 and ONNX's 0 allowed
                     Flatten{axis} Squeeze{axes} Unsqueeze{axes} Transpose{perm} Concat{axis} Split{axis, split} Trilu{upper, k}
                     Slice{starts, ends, axes, steps} Expand{shape, batch_axis} Tile{repeats}
                     Pad{mode=constant|reflect|edge|wrap, pads, value} GatherElements{axis} GatherND{batch_dims}(data, indices)
                     OneHot{depth, axis=-1}(indices, values: off and on)
                     Gather{axis}(data, indices) ConstantOfShape{shape, batch_axis, value, to="float32"}()
   reductions        ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd{axes: all if empty, keepdims=1} ArgMax ArgMin{axis, keepdims=1, select_last_index=0}
                     CumSum{axis, exclusive, reverse}
   loss              SoftmaxCrossEntropyLoss{ignore_index=-100}(logits (M, V), labels (M)) -> loss (), Stats (M, 2) = (max, log-sum-exp):
                     the mean over the rows of the slice that are not ignored (divisor at least 1)
   blocks            Pack{offsets, elements, parts}(A?, B?, ...) -> [parts, elements / parts]: tensors one behind the other, zeros between;
                     Unpack{offsets, ranks, sizes}(block) takes them out again (sizes of all outputs, ranks[i] of them each)
   unfused           UnfusedAttention{heads, causal, ratio}(QKV) -> Y, Probabilities (N, heads, T, T), Kept, Dropped (the same shape);
                     MaskedDropout{ratio}(X) -> Y, Mask: as frameworks ran them before attention was fused; planned and simulated only
   opaque            ProfiledLayer{forward_seconds, backward_seconds, profile_batch}: a row of a layer profile; no kernel

   GRADIENTS, made by differentiate() only. {shape, batch_axis} is the shape of the result: what is needed of a forward tensor is only
   its shape, so it is not kept for that.
   ReduceSumTo{shape, batch_axis}(dY)  sums what broadcasting repeated;  AddN(A, B, ...)
   ReluGrad TanhGrad SigmoidGrad SqrtGrad SoftmaxGrad{axis} LogSoftmaxGrad{axis} (dY, Y)
   GeluGrad{approximate} SiluGrad ErfGrad AbsGrad LeakyReluGrad{alpha} EluGrad{alpha} SoftplusGrad HardSwishGrad
   HardSigmoidGrad{alpha, beta} ClipGrad{min, max} SinGrad CosGrad (dY, X)
   MinMaxGrad{op = "Min" | "Max", which = 0 | 1}(dY, A, B), shaped like dY
   LayerNormalizationGrad{axis, epsilon}(dY, X, scale, Mean, InvStdDev) -> dX, dScale, dBias
   RMSNormalizationGrad{axis, epsilon}(dY, X, scale, InvRms) -> dX, dScale
   BatchNormalizationGrad{epsilon}(dY, X, scale, Mean, InvStdDev) -> dX, dScale, dBias
     fused {relu=1}(..., bias, Y?, dY2?) -> dX, dScale, dBias, dResidual?: dY + dY2 where Y > 0 (without Y: where what X gives is)
   MatMulWeightGrad(A (..., K), B (..., M)) -> (K, M): A^T B with all leading dimensions flattened
   AttentionGrad{heads, kv_heads, causal}(dY, QKV, Y, LogSumExp, mask?)  RotaryEmbeddingGrad{heads, kv_heads, theta}(dY)
   UnfusedAttentionGrad{heads, causal, ratio}(dY, QKV, Probabilities, Kept, Dropped)  MaskedDropoutGrad{ratio}(dY, Mask)
   ConvGradInput{..., shape, batch_axis}(dY, W)  ConvGradWeight{..., w_shape}(dY, X) -> dW, dBias? (rewrites only)
   MaxPoolGrad{...} GlobalMaxPoolGrad (dY, X, Y): the first maximum gets all
   AveragePoolGrad{..., shape, batch_axis} GlobalAveragePoolGrad{shape, batch_axis}(dY)
   SliceGrad{starts, ends, axes, steps, shape, batch_axis}(dY)  GatherGrad{axis, shape, batch_axis}(dY, indices)
   GatherElementsGrad{axis, shape, batch_axis} GatherNDGrad{batch_dims, shape, batch_axis}(dY, indices)
   PadGrad{mode, pads, shape, batch_axis}(dY)
   ReduceMeanGrad{axes, keepdims, shape, batch_axis}(dY)  ReduceMaxGrad ReduceMinGrad ReduceProdGrad{axes, keepdims}(dY, X, Y)
   SoftmaxCrossEntropyLossGrad{ignore_index}(dLoss, logits, labels, Stats), scaled by dLoss / divisor
   DropoutGrad{ratio, key: the forward operator's name}(dY): draws the forward mask again
   LSTMGrad GRUGrad RNNGrad{as forward}(dY?, dY_h?, LSTM: dY_c?, all forward inputs, Y, what was saved)
   -> dX, dW, dR, then those of B, initial_h, initial_c, P where these are given
   All others are written in forward types.

   FUSED, made by fuse() only
   MatMul(A, B, bias): B a matrix, bias (columns) float32 whatever A is
   MatMulGelu{transB, approximate}(A, B, bias) -> Y, Z: Z = A B + bias, Y = Gelu(Z)
   MatMulGeluGrad{transB, approximate}(dY, B, Z): GeluGrad(dY B, Z), where another product read what GELU made of Z
   AddLayerNormalization{axis, epsilon}(A, B, scale, bias?) -> Y, A + B, Mean, InvStdDev
   AddRMSNormalization{axis, epsilon}(A, B, scale) -> Y, A + B, InvRms
   LayerNormalizationGrad{..}(dY, X, scale, Mean, InvStdDev, addend)  RMSNormalizationGrad{..}(dY, X, scale, InvRms, addend): dX + addend

   SHARDS, made by engine/sharding only; it says there what AllReduce AllGather ReduceScatter AllToAll (which communicate and have no kernel)
   ShardSlice KeepOnFirst Partition Assemble do. {mesh_dim}: the kernel is made with "mesh_index", the device's coordinate there.
   Where an axis carries the batch, `segments` are those of one sample.
   ShardPad{mesh_dim, parts, axis, segments}(X) -> the whole with zeros in all but the own part
   ShiftIndices{mesh_dim, parts, size, keep?, from_end=0}(indices): positions of an axis of parts*size as positions of the own `size`:
   INT64_MIN where another device has it, +1 where nobody has, +2 for `keep`; from_end = 1: negative ones count from the end
   ShardGather{axis}(data, shifted indices): Gather with zeros where another device has the row
   LossStatistics{ignore_index}(logits (M, V), shifted labels (M)) -> (M, 3) = (max, sum of exp(x - max), label's logit or 0)
   CombineLossStatistics(X (P, M, 3)) -> (M, 3)  LossFromStatistics{ignore_index}((M, 3), labels (M)) -> loss (), Stats (M, 2)
   LossRowShare{ignore_index}(dLoss (), own labels, all labels): dLoss * divisor of the own rows / divisor of all

   LAYOUTS, made by chooseLayouts() only.  Reorder{to = "blocked" | "row_major"}(X): the same values in another layout
*/

} // namespace planloom::graph
