// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/operators/operators.h"

#include <QTest>

#include <set>

using namespace planloom;
using namespace planloom::graph;

namespace {

struct Row {
    const char *type;
    const char *attributes; ///< "axis=1 perm=1,0 mode=x epsilon=0.1"; a list ends with a comma if it has one entry
    const char *inputs;     ///< "N,4 4,3:int64 -"
    const char *outputs;    ///< like inputs, or "!" and a part of the error
    double flops;           ///< for one sample; -1: not checked
};

// N is the batch; 4N is four rows for each sample. Worked by hand from the definitions in operators/README.md and
// ONNX's.
const Row kRows[] = {
    // element-wise
    {"Add", "", "N,1,4 3,4", "N,3,4", 12},
    {"Add", "", "N,4 N,3", "!do not broadcast", -1},
    {"Add", "", "N,4 4,4", "!do not broadcast", -1},
    {"Add", "", "N,4 4:int64", "!types float32 and int64 differ", -1},
    {"Sub", "", "N,4 4", "N,4", 4},
    {"Mul", "", "2,3 -", "!lacks input 1", -1},
    {"Mul", "", "scalar N,3", "N,3", 3},
    {"Div", "", "N,4 N,1", "N,4", 4},
    {"Min", "", "4N,4 4N,4", "4N,4", 4 * 4},
    {"Max", "", "4N,4 4N,4", "4N,4", 4 * 4},
    {"Pow", "", "N,4 scalar", "N,4", 32},
    {"Mod", "fmod=1", "N,4 4", "N,4", 4},
    {"LessOrEqual", "", "N,4 4", "N,4:bool", 4},
    {"GreaterOrEqual", "", "N,4 4", "N,4:bool", 4},
    {"Xor", "", "N:bool N:bool", "N:bool", 1},
    {"Equal", "", "N,4:int64 4:int64", "N,4:bool", 4},
    {"Less", "", "N,4 4", "N,4:bool", 4},
    {"Greater", "", "N,4 4", "N,4:bool", 4},
    {"And", "", "N:bool N:bool", "N:bool", 1},
    {"Or", "", "N:bool N:bool", "N:bool", 1},
    {"Not", "", "N,2:bool", "N,2:bool", 2},
    {"Where", "", "N,1:bool 4 scalar", "N,4", 4},
    {"Where", "", "N,1:bool 4:int64 scalar", "!different types", -1},
    {"Cast", "to=int64", "N,2", "N,2:int64", 0},
    {"Cast", "to=word", "N,2", "!attribute 'to' is 'word'", -1},
    {"Identity", "", "N,2:int64", "N,2:int64", 0},
    {"Shape", "", "N,2", "declared", -1},
    {"Dropout", "ratio=0.0", "N,2", "N,2", 0},
    {"DropoutGrad", "ratio=0.5 key=drop", "N,2", "N,2", -1},
    {"LSTM", "layout=1", "N,5,3 1,8,3 1,8,2", "N,5,1,2 N,1,2 N,1,2 1,5,N,8 1,5,N,2", 400},
    {"LSTM", "direction=bidirectional", "5,N,3 2,8,3 2,8,2 2,16", "5,2,N,2 2,N,2 2,N,2 2,5,N,8 2,5,N,2", 800},
    {"LSTM", "", "5,N,3 1,8,4 1,8,2", "!do not fit the input", -1},
    {"LSTM", "", "5,N,3 1,8,3 1,8,2 1,8", "!B must be [1, 16]", -1},
    {"LSTM", "direction=up", "5,N,3 1,8,3 1,8,2", "!attribute 'direction' is 'up'", -1},
    {"GRU", "", "5,N,3 1,6,3 1,6,2 - - 1,N,2", "5,1,N,2 1,N,2 1,5,N,6 1,5,N,2", 300},
    {"GRU", "", "5,N,3 1,6,3 1,6,2 - - N,1,2", "!an initial state must be [1, N, 2]", -1},
    {"RNN", "", "5,N,3 1,2,3 1,2,2", "5,1,N,2 1,N,2 1,5,N,2", 100},
    {"LSTMGrad", "layout=1", "N,5,1,2 - - N,5,3 1,8,3 1,8,2 - - - - - N,5,1,2 1,5,N,8 1,5,N,2", "N,5,3 1,8,3 1,8,2",
     -1},
    {"LSTMGrad", "layout=1", "N,5,1,2", "!X, W and R are expected", -1},
    {"GRUGrad", "", "5,1,N,2 - 5,N,3 1,6,3 1,6,2 1,12 - 1,N,2 5,1,N,2 1,5,N,6 1,5,N,2", "5,N,3 1,6,3 1,6,2 1,12 1,N,2",
     -1},
    {"RNNGrad", "", "- 1,N,2 5,N,3 1,2,3 1,2,2 - - - 5,1,N,2 1,5,N,2", "5,N,3 1,2,3 1,2,2", -1},
    {"ScatterElements", "axis=1", "N,6 N,3:int64 N,3", "N,6", 0},
    {"ScatterElements", "axis=1 reduction=max", "N,6 N,3:int64 N,3", "!none, add and mul", -1},
    {"ScatterElements", "axis=1", "N,6 N,3:int64 N,4", "!must have one shape", -1},
    {"ScatterND", "", "7,3 2,1:int64 2,3", "7,3", 0},
    {"ScatterND", "", "7,3 2,3:int64 2", "!counts more dimensions", -1},
    {"SpMM", "reduce=mean", "3N:int64 9N:int64 5N,4 9N", "3N,4", 2 * 9 * 4 + 3 * 4},
    {"SpMM", "", "3N:int64 9N:int64 7,4", "3N,4", 9 * 4},
    {"SpMM", "", "3N:int64 9N 7,4", "!must be int64 vectors", -1},
    {"SpMM", "", "3N:int64 9N:int64 7", "!X must be a matrix", -1},
    {"SpMM", "", "3N:int64 9N:int64 7,4 8N", "!one an entry", -1},
    {"SpMM", "reduce=max", "3N:int64 9N:int64 7,4", "!sum and mean are known", -1},
    {"SpMMGrad", "reduce=sum shape=5,4 batch_axis=0", "3N,4 3N:int64 9N:int64 9N", "5N,4", 2 * 9 * 4},
    {"SpMMGrad", "shape=5,4 batch_axis=0", "2N,4 3N:int64 9N:int64", "!a row for each of the offsets", -1},
    {"SpMMWeightGrad", "reduce=sum", "3N,4 3N:int64 9N:int64 5N,4", "9N", 2 * 9 * 4},
    {"SpMMWeightGrad", "", "3N,4 3N:int64 9N:int64 5N,3", "!differ in columns", -1},
    {"TopK", "k=2 axis=1", "N,6", "N,2 N,2:int64", 24},
    {"TopK", "k=7 axis=1", "N,6", "!cannot be taken", -1},
    {"ConvTranspose", "kernel_shape=2,2 strides=2,2 shape=1,3,8,8 batch_axis=0", "N,4,4,4 4,3,2,2", "N,3,8,8", -1},
    {"Neg", "", "N,2", "N,2", 2},
    {"Abs", "", "N,2", "N,2", 2},
    {"Relu", "", "N,2", "N,2", 2},
    {"Clip", "min=0.0 max=6.0", "N,2", "N,2", 2},
    {"Floor", "", "N,2", "N,2", 2},
    {"Ceil", "", "N,2", "N,2", 2},
    {"Round", "", "N,2", "N,2", 2},
    {"Sign", "", "N,2", "N,2", 2},
    {"LeakyRelu", "alpha=0.1", "N,2", "N,2", 2},
    {"HardSigmoid", "alpha=0.2 beta=0.5", "N,2", "N,2", 2},
    {"HardSwish", "", "N,2", "N,2", 2},
    {"Reciprocal", "", "N,2", "N,2", 2},
    {"Sqrt", "", "N,2", "N,2", 16},
    {"Exp", "", "N,2", "N,2", 16},
    {"Log", "", "N,2", "N,2", 16},
    {"Erf", "", "N,2", "N,2", 16},
    {"Tanh", "", "N,2", "N,2", 16},
    {"Sigmoid", "", "N,2", "N,2", 16},
    {"Elu", "alpha=1.0", "N,2", "N,2", 16},
    {"Softplus", "", "N,2", "N,2", 16},
    {"Gelu", "approximate=tanh", "N,2", "N,2", 16},
    {"Silu", "", "N,2", "N,2", 16},
    {"Mish", "", "N,2", "N,2", 32},
    {"Sin", "", "N,2", "N,2", 16},
    {"Cos", "", "N,2", "N,2", 16},
    {"Sinh", "", "N,2", "N,2", 16},
    {"Cosh", "", "N,2", "N,2", 16},
    {"Asin", "", "N,2", "N,2", 16},
    {"Acos", "", "N,2", "N,2", 16},
    {"Atan", "", "N,2", "N,2", 16},
    {"Asinh", "", "N,2", "N,2", 16},
    {"Acosh", "", "N,2", "N,2", 16},
    {"Atanh", "", "N,2", "N,2", 16},
    // their gradients
    {"ReluGrad", "", "N,2 N,2", "N,2", 4},
    {"ReluGrad", "", "N,2 N,3", "!one shape", -1},
    {"TanhGrad", "", "N,2 N,2", "N,2", 4},
    {"SigmoidGrad", "", "N,2 N,2", "N,2", 4},
    {"SqrtGrad", "", "N,2 N,2", "N,2", 4},
    {"AbsGrad", "", "N,2 N,2", "N,2", 4},
    {"LeakyReluGrad", "alpha=0.1", "N,2 N,2", "N,2", 4},
    {"HardSwishGrad", "", "N,2 N,2", "N,2", 4},
    {"HardSigmoidGrad", "", "N,2 N,2", "N,2", 4},
    {"ClipGrad", "", "N,2 N,2", "N,2", 4},
    {"GeluGrad", "", "N,2 N,2", "N,2", 16},
    {"SiluGrad", "", "N,2 N,2", "N,2", 16},
    {"MishGrad", "", "N,2 N,2", "N,2", 32},
    {"ErfGrad", "", "N,2 N,2", "N,2", 16},
    {"EluGrad", "", "N,2 N,2", "N,2", 16},
    {"SoftplusGrad", "", "N,2 N,2", "N,2", 16},
    {"SinGrad", "", "N,2 N,2", "N,2", 16},
    {"CosGrad", "", "N,2 N,2", "N,2", 16},
    {"MinMaxGrad", "op=Min which=1", "N,2 N,2 2", "N,2", 4},
    {"MinMaxGrad", "op=Mean which=1", "N,2 N,2 2", "!attribute 'op' is 'Mean'", -1},
    {"AddN", "", "N,2 N,2 N,2", "N,2", 4},
    {"AddN", "", "N,2 N,3", "!one shape", -1},
    {"ReduceSumTo", "shape=4, batch_axis=-1", "N,3,4", "4", 12},
    {"ReduceSumTo", "shape=1,3,1 batch_axis=0", "N,3,4", "N,3,1", 12},
    {"ReduceSumTo", "shape=5, batch_axis=-1", "N,3,4", "!no broadcast of [5]", -1},
    {"ReduceSumTo", "shape=4, batch_axis=1", "N,3,4", "!attribute 'batch_axis' is 1", -1},
    // softmax and normalisations
    {"Softmax", "axis=-1", "N,5", "N,5", 60},
    {"Softmax", "axis=2", "N,5", "!axis 2 is not within rank 2", -1},
    {"LogSoftmax", "axis=1", "N,5", "N,5", 60},
    {"SoftmaxGrad", "axis=1", "N,5 N,5", "N,5", 20},
    {"LogSoftmaxGrad", "axis=1", "N,5 N,5", "N,5", 60},
    {"LayerNormalization", "axis=-1", "N,3,4 4 4", "N,3,4 N,3,1 N,3,1", 96},
    {"LayerNormalization", "axis=1", "N,3,4 3,4", "N,3,4 N,1,1 N,1,1", 96},
    {"LayerNormalization", "axis=-1", "N,3,4 3", "!scale and bias must be [4]", -1},
    {"LayerNormalizationGrad", "axis=-1", "N,3,4 N,3,4 4 N,3,1 N,3,1", "N,3,4 4 4", 14 * 12},
    {"LayerNormalizationGrad", "axis=-1", "N,3,5 N,3,4 4 N,3,1 N,3,1", "!shaped like the input", -1},
    {"RMSNormalization", "axis=-1", "N,3,4 4", "N,3,4 N,3,1", 48},
    {"RMSNormalizationGrad", "axis=-1", "N,3,4 N,3,4 4 N,3,1", "N,3,4 4", 120},
    {"BatchNormalization", "epsilon=0.1", "N,3,4,4 3 3 3 3", "N,3,4,4 3 3", 8 * 48},
    {"BatchNormalization", "epsilon=0.1", "N,3,4,4 3 3 4 3", "!must be [3], not [4]", -1},
    {"BatchNormalizationGrad", "epsilon=0.1", "N,3,4,4 N,3,4,4 3 3 3", "N,3,4,4 3 3", 11 * 48},
    // products
    {"MatMul", "", "N,4,8 8,3", "N,4,3", 2 * 4 * 8 * 3},
    {"MatMul", "transB=1", "4N,8 3,8", "4N,3", 2 * 4 * 8 * 3},
    {"MatMul", "transA=1", "4N,8 4N,3", "8,3", 2 * 4 * 8 * 3},
    {"MatMul", "", "N,2,4,8 N,1,8,3", "N,2,4,3", 2 * 2 * 4 * 8 * 3},
    {"MatMul", "", "N,4,8 7,3", "!inner sizes of [N, 4, 8] and [7, 3] differ", -1},
    {"MatMul", "", "8 8,3", "!at least two dimensions", -1},
    {"Gemm", "transB=1", "N,8 3,8 3", "N,3", 48},
    {"Gemm", "", "N,8 8,3 -", "N,3", 48},
    {"Gemm", "", "N,8 8,3 4", "!the added term [4]", -1},
    {"Gemm", "", "N,2,8 8,3", "!must be matrices", -1},
    {"MatMulWeightGrad", "", "N,4,8 N,4,3", "8,3", 2 * 4 * 8 * 3},
    {"MatMulWeightGrad", "", "N,4,8 N,5,3", "!leading dimensions", -1},
    {"Attention", "heads=2", "N,5,24", "N,5,8 N,2,5", 4 * 5 * 5 * 8},
    {"Attention", "heads=2 causal=1", "N,5,24", "N,5,8 N,2,5", 2 * 5 * 5 * 8},
    {"Attention", "heads=4 kv_heads=2", "N,5,32 N,5:int64", "N,5,16 N,4,5", 4 * 5 * 5 * 16},
    {"UnfusedAttention", "heads=2 ratio=0.1", "N,5,24", "N,5,8 N,2,5,5 N,2,5,5:bool N,2,5,5", 4 * 5 * 5 * 8},
    {"UnfusedAttention", "heads=2", "N,5,25", "!expected packed", -1},
    {"UnfusedAttentionGrad", "heads=2", "N,5,8 N,5,24 N,2,5,5 N,2,5,5:bool N,2,5,5", "N,5,24", 8 * 5 * 5 * 8},
    {"UnfusedAttentionGrad", "heads=2", "N,5,8 N,5,24 N,2,5,5 N,2,5:bool N,2,5,5", "!probabilities and mask", -1},
    {"MaskedDropout", "ratio=0.1", "N,2", "N,2 N,2:bool", 0},
    {"MaskedDropoutGrad", "ratio=0.1", "N,2 N,2:bool", "N,2", 4},
    {"Attention", "heads=2", "N,5,25", "!is not a multiple of heads + 2 kv_heads = 6", -1},
    {"Attention", "heads=3 kv_heads=2", "N,5,28", "!multiple of 'kv_heads'", -1},
    {"Attention", "heads=2", "N,5,24 N,4:int64", "!the mask must be [N, 5]", -1},
    {"AttentionGrad", "heads=2", "N,5,8 N,5,24 N,5,8 N,2,5", "N,5,24", 10 * 5 * 5 * 8},
    {"RotaryEmbedding", "heads=2 theta=10000.0", "N,5,24", "N,5,24", 360},
    {"RotaryEmbedding", "heads=2 theta=10000.0", "N,5,18", "!even head size, not 3", -1},
    {"RotaryEmbedding", "heads=2 inverse_frequencies=1.0,", "N,5,24", "N,5,24", 360},
    {"RotaryEmbedding", "heads=2 inverse_frequencies=1.0,0.1,0.01", "N,5,24", "!3 numbers, more than the 2 pairs", -1},
    {"RotaryEmbeddingGrad", "heads=2", "N,5,24", "N,5,24", 360},
    // images
    {"Conv", "pads=1,1,1,1", "N,3,8,8 6,3,3,3 6", "N,6,8,8", 2 * 6 * 64 * 27},
    {"Conv", "strides=2,2 dilations=2,2", "N,3,9,8 6,3,3,3", "N,6,3,2", 2 * 6 * 6 * 27},
    {"Conv", "group=3 kernel_shape=5,", "N,3,8 6,1,5", "N,6,4", 2 * 6 * 4 * 5},
    {"Conv", "", "N,4,8,8 6,3,3,3", "!do not fit group 1", -1},
    {"Conv", "", "N,3,2,2 6,3,3,3", "!larger than the padded input", -1},
    {"Conv", "strides=0,1", "N,3,8,8 6,3,3,3", "!out of range", -1},
    {"Conv", "auto_pad=SAME_UPPER", "N,3,8,8 6,3,3,3", "!give 'pads' instead", -1},
    {"Conv", "kernel_shape=2,2", "N,3,8,8 6,3,3,3", "!is not the weight's", -1},
    {"Conv", "", "N,3,8,8 6,3,3,3 5", "!one element for each output channel", -1},
    {"ConvGradInput", "shape=1,3,8,8 batch_axis=0", "N,6,8,8 6,3,3,3", "N,3,8,8", 2 * 6 * 64 * 27},
    {"ConvGradWeight", "w_shape=6,3,3,3", "N,6,8,8 N,3,8,8", "6,3,3,3", 2 * 6 * 64 * 27},
    {"MaxPool", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1", "N,4,8,8", "N,4,4,4", 9 * 64},
    {"MaxPool", "kernel_shape=2,2 strides=2,2 ceil_mode=1", "N,4,5,5", "N,4,3,3", 4 * 36},
    {"MaxPool", "kernel_shape=3,3", "N,4", "!an input of shape", -1},
    {"MaxPool", "", "N,4,8,8", "!do not have 2 spatial dimensions", -1},
    {"MaxPoolGrad", "kernel_shape=2,2", "N,4,7,7 N,4,8,8 N,4,7,7", "N,4,8,8", -1},
    {"AveragePool", "kernel_shape=2,", "N,4,8", "N,4,7", 2 * 28},
    {"AveragePoolGrad", "kernel_shape=2, shape=1,4,8 batch_axis=0", "N,4,7", "N,4,8", -1},
    {"GlobalAveragePool", "", "N,4,7,7", "N,4,1,1", 196},
    {"GlobalAveragePoolGrad", "shape=1,4,7,7 batch_axis=0", "N,4,1,1", "N,4,7,7", 196},
    {"GlobalMaxPool", "", "N,4,7,7", "N,4,1,1", 196},
    {"GlobalMaxPoolGrad", "", "N,4,1,1 N,4,7,7 N,4,1,1", "N,4,7,7", 196},
    // shapes
    {"Flatten", "axis=1", "N,4,5", "N,20", 0},
    {"Flatten", "axis=2", "N,4,5", "4N,5", 0},
    {"Flatten", "axis=0", "N,4,5", "1,20N", 0},
    {"Flatten", "axis=4", "N,4,5", "!axis 4", -1},
    {"Reshape", "shape=4,5 batch_axis=0", "N,4,5", "4N,5", 0},
    {"Reshape", "shape=-1,5", "N,4,5", "4N,5", 0},
    {"Reshape", "shape=0,-1", "N,4,5", "N,20", 0},
    {"Reshape", "shape=0,2,-1,5", "N,4,5", "N,2,2,5", 0},
    {"Reshape", "shape=1,20 batch_axis=0", "4N,5", "N,20", 0},
    {"Reshape", "shape=4,5", "N,4,5", "!as many elements as [4, 5]", -1},
    {"Reshape", "shape=-1,3", "N,4,5", "!as many elements", -1},
    {"Reshape", "shape=-1,-1", "N,4,5", "!may hold one -1", -1},
    {"Squeeze", "axes=1,", "N,1,5", "N,5", 0},
    {"Squeeze", "", "N,1,5,1", "N,5", 0},
    {"Squeeze", "axes=2,", "N,1,5", "!dimension 2 of [N, 1, 5] is not 1", -1},
    {"Unsqueeze", "axes=0,-1", "N,5", "1,N,5,1", 0},
    {"Unsqueeze", "axes=1,1", "N,5", "!repeats an axis", -1},
    {"Transpose", "perm=0,2,1", "N,4,5", "N,5,4", 0},
    {"Transpose", "", "N,4,5", "5,4,N", 0},
    {"Transpose", "perm=0,0,1", "N,4,5", "!is not an order", -1},
    {"Concat", "axis=-1", "N,4 N,5 N,1", "N,10", 0},
    {"Concat", "axis=0", "N,4 2N,4", "3N,4", 0},
    {"Concat", "axis=1", "N,4 2N,4", "!input 1 differs in dimension 0", -1},
    {"Split", "axis=1 split=1,3 parts=2", "N,4", "N,1 N,3", 0},
    {"Split", "axis=1 parts=2", "N,4", "N,2 N,2", 0},
    {"Split", "axis=1 split=1,2 parts=2", "N,4", "!must add up", -1},
    {"Split", "axis=0 parts=2", "2N,4", "!cannot be split", -1},
    {"Slice", "starts=1, ends=100, axes=1, steps=2,", "N,6", "N,3", 0},
    {"Slice", "starts=-1, ends=-100, axes=1, steps=-1,", "N,6", "N,6", 0},
    {"Slice", "starts=0,1 ends=9223372036854775807,3", "N,6", "N,2", 0},
    {"Slice", "starts=1, ends=2, axes=0,", "N,6", "!carries the batch and cannot be sliced", -1},
    {"Slice", "starts=1, ends=2,3", "N,6", "!differ in length", -1},
    {"SliceGrad", "starts=1, ends=3, axes=1, shape=1,6 batch_axis=0", "N,2", "N,6", 0},
    {"Expand", "shape=1,3,1 batch_axis=0", "1,4", "N,3,4", 0},
    {"Tile", "repeats=1,2", "N,4", "N,8", 0},
    {"Tile", "repeats=2,", "N,4", "!one entry for each dimension", -1},
    {"Pad", "pads=0,1,0,2", "N,4", "N,7", 0},
    {"Pad", "pads=1,0,0,0", "N,4", "!cannot be padded", -1},
    {"Pad", "pads=0,1,0,2 mode=edge", "N,4", "N,7", 0},
    {"PadGrad", "pads=0,1,0,2 mode=edge shape=1,4 batch_axis=0", "N,7", "N,4", -1},
    {"GatherElements", "axis=1", "N,6 N,9:int64", "N,9", 0},
    {"GatherElements", "axis=1", "N,6 N,9:int32", "N,9:float32", 0},
    {"GatherElements", "axis=1", "N,6 N,9", "!indices must be int64", -1},
    {"GatherElements", "axis=0", "5,6 5,9:int64", "!do not lie within", -1},
    {"GatherElements", "axis=0", "N,6 3,6:int64", "!carries the batch", -1},
    {"GatherElementsGrad", "axis=1 shape=1,6 batch_axis=0", "N,9 N,9:int64", "N,6", -1},
    {"GatherND", "batch_dims=1", "N,6,8 N,3,1:int64", "N,3,8", 0},
    {"GatherND", "", "5,6,8 N,2:int64", "N,8", 0},
    {"GatherND", "", "5,6 N,3:int64", "!do not fit", -1},
    {"GatherND", "", "N,6 4,1:int64", "!carries the batch", -1},
    {"GatherNDGrad", "batch_dims=1 shape=1,6,8 batch_axis=0", "N,3,8 N,3,1:int64", "N,6,8", -1},
    {"OneHot", "depth=10", "N,4:int64 2", "N,4,10", 0},
    {"OneHot", "depth=10 axis=1", "N,4:int64 2:int64", "N,10,4:int64", 0},
    {"OneHot", "depth=0", "N,4:int64 2", "!out of range", -1},
    {"OneHot", "depth=3", "N,4:int64 3", "!must be [2]", -1},
    {"Gather", "axis=0", "50,8 N,4:int64", "N,4,8", 0},
    {"Gather", "axis=1", "N,6,8 3:int64", "N,3,8", 0},
    {"Gather", "axis=0", "50,8 N,4", "!indices must be int64", -1},
    {"GatherGrad", "axis=0 shape=50,8 batch_axis=-1", "N,4,8 N,4:int64", "50,8", 32},
    {"Trilu", "upper=0", "N,4,4", "N,4,4", 0},
    {"ConstantOfShape", "shape=2,3 batch_axis=0 value=1.0", "", "2N,3", 0},
    {"ConstantOfShape", "shape=2, to=int64", "", "2:int64", 0},
    // reductions
    {"ReduceSum", "axes=1,", "N,4,5", "N,1,5", 20},
    {"ReduceMean", "axes=-1, keepdims=0", "N,4,5", "N,4", 20},
    {"ReduceMean", "keepdims=0", "N,4,5", "scalar", 20},
    {"ReduceMax", "axes=1,2 keepdims=0", "N,4,5", "N", 20},
    {"ReduceMin", "axes=3,", "N,4,5", "!axis 3", -1},
    {"ReduceMin", "axes=2,", "N,4,5", "N,4,1", 20},
    {"ReduceProd", "axes=0,", "N,4,5", "1,4,5", 20},
    {"ReduceMeanGrad", "axes=1, keepdims=0 shape=1,4,5 batch_axis=0", "N,5", "N,4,5", 20},
    {"ReduceMeanGrad", "axes=1, keepdims=1 shape=1,4,5 batch_axis=0", "N,5", "!is not a reduction of", -1},
    {"ReduceMaxGrad", "axes=1,", "N,1,5 N,4,5 N,1,5", "N,4,5", 40},
    {"ReduceMinGrad", "axes=1,", "N,1,5 N,4,5 N,1,5", "N,4,5", 40},
    {"ReduceProdGrad", "axes=1,", "N,1,5 N,4,5 N,1,5", "N,4,5", 40},
    {"ArgMax", "axis=1", "N,4,5", "N,1,5:int64", 20},
    {"ArgMin", "axis=1 keepdims=0", "N,4,5", "N,5:int64", 20},
    {"CumSum", "axis=1", "N,4", "N,4", 4},
    {"CumSum", "axis=5", "N,4", "!axis 5", -1},
    // losses
    {"SoftmaxCrossEntropyLoss", "", "4N,10 4N:int64", "scalar 4N,2", 480},
    {"SoftmaxCrossEntropyLoss", "", "N,4,10 4N:int64", "!Reshape first", -1},
    {"SoftmaxCrossEntropyLoss", "", "4N,10 N:int64", "!labels must be [4N], not [N]", -1},
    {"SoftmaxCrossEntropyLoss", "", "4N,10 4N", "!labels must be int64", -1},
    {"SoftmaxCrossEntropyLoss", "reduction=sum", "4N,10 4N:int64", "!only mean is known", -1},
    {"SoftmaxCrossEntropyLossGrad", "", "scalar 4N,10 4N:int64 4N,2", "4N,10", 400},
    {"MeanSquaredErrorLoss", "", "N,5 N,5", "scalar", 15},
    {"MeanSquaredErrorLoss", "", "N,5 N,5 N,5:bool", "scalar", 15},
    {"MeanSquaredErrorLoss", "", "N,5 N,4", "!targets must be [N, 5], not [N, 4]", -1},
    {"MeanSquaredErrorLoss", "", "N,5 N,5:int64", "!targets must be float32", -1},
    {"MeanSquaredErrorLoss", "", "N,5 N,5 N,5", "!the mask must be bool[N, 5]", -1},
    {"MeanSquaredErrorLossGrad", "", "scalar N,5 N,5", "N,5", 15},
    {"MeanAbsoluteErrorLoss", "", "N,5 N,5", "scalar", 15},
    {"MeanAbsoluteErrorLossGrad", "", "scalar N,5 N,5", "N,5", 15},
    {"HuberLoss", "delta=0.5", "N,5 N,5", "scalar", 25},
    {"HuberLossGrad", "delta=0.5", "scalar N,5 N,5 N,5:bool", "N,5", 20},
    {"SigmoidCrossEntropyLoss", "", "N,5 N,5", "scalar", 100},
    {"SigmoidCrossEntropyLossGrad", "", "scalar N,5 N,5", "N,5", 55},
    {"ProfiledLayer", "", "N,4", "declared", 0},
    // sub-problems of ADMM
    {"ProximalTanh", "p=1 q=2 iterations=3", "N,5 N,5 N,5", "N,5", 255},
    {"ProximalTanh", "p=1 q=2", "N,5 N,5 N,4", "!alpha and beta must be [N, 5], not [N, 4]", -1},
    {"ProximalTanh", "p=1 q=2", "N,5 N,5 N,5 N,5 N,5", "N,5", 85},
    {"ProximalTanh", "p=1 q=2", "N,5 N,5 N,5 N,5", "!both duals, or none", -1},
    {"ProximalTanh", "p=1 q=2", "N,5 N,5 N,5 N,5 N,4", "!duals must be [N, 5], not [N, 4]", -1},
    {"ProximalTanh", "p=0 q=2", "N,5 N,5 N,5", "!attribute 'p' must be a number above 0", -1},
    {"ProximalCrossEntropy", "penalty=0.5 iterations=2", "N,5 N,5 N:int64", "N,5", 220},
    {"ProximalCrossEntropy", "penalty=0.5 losses=1", "N,5 N,5 N:int64", "N,5 N", 110},
    {"ProximalCrossEntropy", "penalty=0.5", "N,5 N,5 N", "!labels must be int64[N]", -1},
    {"ProximalCrossEntropy", "penalty=0.5 iterations=101", "N,5 N,5 N:int64", "!from 0 to 100", -1},
    {"OuterSums", "", "N,4 N,3", "!a number for each of 1 steps", -1},
    {"OuterSums", "", "N,4 2N,3", "!a number for each", -1},
    {"CholeskySolve", "ridge=1", "6 2,3", "2,3", 45},
    {"CholeskySolve", "ridge=1", "9 3,4", "!must be [10], not [9]", -1},
    {"CholeskySolve", "shift=1", "6 2N,3 2N,3", "2N,3", 45},
    {"CholeskySolve", "shift=-1", "6 2,3", "!must be numbers from 0", -1},
    {"CholeskySolve", "shift=1", "6 2,3 2,3 3,2", "!the addend must be [2, 3]", -1},
    {"CholeskySolve", "", "6 2,3 3,2", "!the last solution must be [2, 3]", -1},
    {"KeepState", "scale=2", "N,5 N,5", "1 1", 30},
    {"KeepState", "scale=2", "N,5 N,4", "!the new value must be [N, 5], not [N, 4]", -1},
    {"KeepState", "scale=2 shards=2", "N,10 N,5", "1 1", 30},
    {"KeepState", "scale=2 shards=3", "N,10 N,5", "!a state of rows with columns of 3 shards", -1},
    {"ReadState", "shards=2", "N,10", "N,5", 0},
    {"ReadState", "shards=3", "N,10", "!a state of rows with columns of 3 shards", -1},
    {"SumsOfShards", "shards=2", "2,7 7", "7", 14},
    {"SumsOfShards", "shards=3", "2,7 7", "!sums of 3 shards", -1},
    {"NeighbourShift", "mesh_dim=1 shift=1", "N,5", "N,5", 0},
    {"KeepState", "scale=0", "N,5 N,5", "!attribute 'scale' must be a number above 0", -1},
};

Dim dimFromText(QString text)
{
    const bool batch = text.endsWith('N');
    if (batch)
        text.chop(1);
    return {text.isEmpty() ? 1 : text.toLongLong(), batch};
}

TensorInfo infoFromText(const QString &text)
{
    TensorInfo info;
    const QStringList parts = text.split(':');
    if (parts.size() > 1 && !fromName(parts[1].toStdString(), info.type))
        qFatal("bad type in row: %s", qPrintable(text));
    std::vector<Dim> dims;
    if (parts[0] != "scalar")
        for (const QString &dim : parts[0].split(','))
            dims.push_back(dimFromText(dim));
    info.shape = Shape(std::move(dims));
    return info;
}

Attribute attributeFromText(const QString &text)
{
    bool isInteger = false;
    bool isNumber = false;
    const qint64 integer = text.toLongLong(&isInteger);
    if (isInteger)
        return std::int64_t{integer};
    const double number = text.toDouble(&isNumber);
    if (isNumber)
        return number;
    if (!text.contains(','))
        return text.toStdString();
    if (text.contains('.')) {
        std::vector<double> numbers;
        for (const QString &part : text.split(',', Qt::SkipEmptyParts))
            numbers.push_back(part.toDouble());
        return numbers;
    }
    std::vector<std::int64_t> values;
    for (const QString &part : text.split(',', Qt::SkipEmptyParts))
        values.push_back(part.toLongLong());
    return values;
}

Result<Graph> graphOf(const Row &row)
{
    GraphBuilder b("row");
    Attributes attributes;
    int outputs = 1;
    for (const QString &pair : QString(row.attributes).split(' ', Qt::SkipEmptyParts)) {
        if (pair.startsWith("parts="))
            outputs = pair.mid(6).toInt();
        else
            attributes[pair.section('=', 0, 0).toStdString()] = attributeFromText(pair.section('=', 1));
    }
    std::vector<TensorId> inputs;
    for (const QString &input : QString(row.inputs).split(' ', Qt::SkipEmptyParts)) {
        if (input == "-") {
            inputs.push_back({});
            continue;
        }
        const TensorInfo info = infoFromText(input);
        inputs.push_back(b.input("input" + std::to_string(inputs.size()), info.type, info.shape));
    }
    std::vector<TensorId> made;
    for (int i = 0; i < outputs; ++i)
        made.push_back(b.activation("output" + std::to_string(i), DType::F32, Shape::of({77}),
                                    QString(row.outputs) == "declared"));
    b.addOp(row.type, "op", "", inputs, made, attributes);
    return std::move(b).build();
}

} // namespace

class TestOperators : public QObject {
    Q_OBJECT

private slots:
    void inference_data();
    void inference();
    void everyTypeHasARow();
    void figuresOfAMatMul();
    void figuresOfAGather();
};

void TestOperators::inference_data()
{
    QTest::addColumn<int>("index");
    for (int i = 0; i < static_cast<int>(std::size(kRows)); ++i)
        QTest::addRow("%s %s (%s)", kRows[i].type, kRows[i].attributes, kRows[i].inputs) << i;
}

void TestOperators::inference()
{
    QFETCH(int, index);
    const Row &row = kRows[index];
    const QString expected(row.outputs);
    const Result<Graph> graph = graphOf(row);
    if (expected.startsWith('!')) {
        QVERIFY(!graph.ok());
        QVERIFY2(QString::fromStdString(graph.error().message).contains(expected.mid(1)),
                 graph.error().message.c_str());
        QVERIFY(QString::fromStdString(graph.error().message).contains("'op'"));
        return;
    }
    QVERIFY2(graph.ok(), graph.ok() ? "" : graph.error().message.c_str());
    const Op &op = graph->ops()[0];
    const QStringList outputs = expected == "declared" ? QStringList{"77"} : expected.split(' ');
    QCOMPARE(static_cast<qsizetype>(op.outputs.size()), outputs.size());
    for (qsizetype i = 0; i < outputs.size(); ++i) {
        const TensorInfo info = infoFromText(outputs[i]);
        const Tensor &tensor = graph->tensor(op.outputs[static_cast<std::size_t>(i)]);
        QCOMPARE(QString::fromStdString(tensor.shape.text()), QString::fromStdString(info.shape.text()));
        QCOMPARE(tensor.type, info.type);
    }
    if (row.flops >= 0)
        QCOMPARE(figures(*graph, op.id, 1).forward.value(), row.flops);
}

void TestOperators::everyTypeHasARow()
{
    std::set<std::string> covered;
    for (const Row &row : kRows)
        covered.insert(row.type);
    for (const Operator &row : operators()) // tst_sharded_graph and tst_fuse run what rewrites make
        QVERIFY2(covered.contains(row.type) || row.traits.origin == Origin::Rewrite, row.type);
    for (const std::string &type : covered)
        QVERIFY2(findOperator(type), type.c_str());
    QVERIFY(!findOperator("FancyOp"));
    QVERIFY(!OpType("FancyOp").row());
    QCOMPARE(OpType("FancyOp").traits().cost, CostClass::Unset);
    QCOMPARE(OpType("MatMul").row(), findOperator("MatMul"));
}

void TestOperators::figuresOfAMatMul()
{
    GraphBuilder b("product");
    const Initializer none;
    const TensorId x = b.input("x", DType::F32, Shape::batched({8}));
    const TensorId h = b.add("MatMul", {x, b.parameter("v", Shape::of({8, 16}), none)}, {}, "first");
    b.output(b.add("MatMul", {h, b.parameter("w", Shape::of({16, 4}), none)}, {}, "second"));
    const Result<Graph> graph = std::move(b).build();
    QVERIFY(graph.ok());
    const OpCostFigures first = figures(*graph, OpId(0), 10);
    QCOMPARE(first.forward.value(), 2.0 * 10 * 8 * 16);
    QCOMPARE(first.backward.value(), 2.0 * 10 * 8 * 16); // pixels want no gradient
    QCOMPARE(first.forwardBytes.value(), std::int64_t{4 * (10 * 8 + 8 * 16 + 10 * 16)});
    QCOMPARE(first.backwardBytes.value(), first.forwardBytes.value() + 4 * 8 * 16);
    const OpCostFigures second = figures(*graph, OpId(1), 10);
    QCOMPARE(second.backward.value(), 2 * second.forward.value());
    QCOMPARE(second.backwardBytes.value(), second.forwardBytes.value() + 4 * (10 * 16 + 16 * 4));
}

void TestOperators::figuresOfAGather()
{
    GraphBuilder b("lookup");
    const TensorId ids = b.input("ids", DType::I64, Shape::batched({4}));
    b.output(b.add("Gather", {b.parameter("table", Shape::of({1000, 8}), {}), ids}, {}, "lookup"));
    const Result<Graph> graph = std::move(b).build();
    QVERIFY(graph.ok());
    const OpCostFigures lookup = figures(*graph, OpId(0), 2);
    QCOMPARE(lookup.forwardBytes.value(),
             std::int64_t{2 * (2 * 4 * 8 * 4) + 2 * 4 * 8}); // picked rows in and out, and the indices
    QCOMPARE(lookup.backwardBytes.value(), lookup.forwardBytes.value() + 1000 * 8 * 4); // a dense gradient
}

QTEST_GUILESS_MAIN(TestOperators)
#include "tst_operators.moc"
