// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/claimed_operators.h"

#include <algorithm>

namespace planloom::import {
namespace {

constexpr std::uint32_t kFirst = 1U << 0U;
constexpr std::uint32_t kSecond = 1U << 1U;
constexpr std::uint32_t kThird = 1U << 2U;
constexpr std::uint32_t kFourth = 1U << 3U;
constexpr std::uint32_t kFifth = 1U << 4U;

// Sorted by name: findClaim searches by halves. resources/docs/formats/onnx.md repeats this table, and a test compares
// the two.
constexpr ClaimedOperator kClaims[] = {
    {"Abs"},
    {"Acos"},
    {"Acosh"},
    {"Add"},
    {"And"},
    {"ArgMax"},
    {"ArgMin"},
    {"Asin"},
    {"Asinh"},
    {"Atan"},
    {"Atanh"},
    {"AveragePool"},
    {"BatchNormalization"},
    {"Cast", 0, "between numbers and truth values; not from or to strings"},
    {"Ceil"},
    {"Clip", kSecond | kThird, "the limits are constants"},
    {"Concat"},
    {"Constant", 0, "not strings, not sparse"},
    {"ConstantOfShape", kFirst, "the shape is known while the file is read"},
    {"Conv", 0, "one to three spatial dimensions"},
    {"ConvTranspose", 0, "one to three spatial dimensions"},
    {"Cos"},
    {"Cosh"},
    {"CumSum", kSecond, "the axis is a constant"},
    {"DepthToSpace", 0, "as Reshape, Transpose, Reshape"},
    {"Div"},
    {"Dropout", kSecond | kThird, "as in inference, or with ratio 0: nothing random is drawn"},
    {"Einsum", 0, "as Transpose, Reshape, MatMul, ReduceSum"},
    {"Elu"},
    {"Equal"},
    {"Erf"},
    {"Exp"},
    {"Expand", kSecond, "the shape is known while the file is read"},
    {"Flatten"},
    {"Floor"},
    {"GRU"},
    {"Gather"},
    {"GatherElements"},
    {"GatherND"},
    {"Gemm"},
    {"GlobalAveragePool"},
    {"GlobalMaxPool"},
    {"Greater"},
    {"GreaterOrEqual"},
    {"HardSigmoid"},
    {"HardSwish"},
    {"Identity", 0, "of tensors"},
    {"InstanceNormalization", 0, "as ReduceMean, Sub, Mul, Sqrt, Div, Add"},
    {"LRN", 0, "as Mul, AveragePool, Pow, Div"},
    {"LSTM", 0, "also with peepholes; clip and input_forget are not trained"},
    {"LayerNormalization"},
    {"LeakyRelu"},
    {"Less"},
    {"LessOrEqual"},
    {"Log"},
    {"LogSoftmax"},
    {"MatMul"},
    {"Max", 0, "of any number of tensors"},
    {"MaxPool", 0, "also of bytes, through floats"},
    {"Mean", 0, "of any number of tensors"},
    {"MeanVarianceNormalization", 0, "as ReduceMean, Sub, Mul, Sqrt, Div"},
    {"Min", 0, "of any number of tensors"},
    {"Mish"},
    {"Mod"},
    {"Mul"},
    {"Neg"},
    {"NegativeLogLikelihoodLoss", 0, "as GatherElements, Where, Mul, ReduceSum"},
    {"Not"},
    {"OneHot", kSecond, "the depth is a constant"},
    {"Or"},
    {"PRelu", 0, "as Less, Mul, Where"},
    {"Pad", kSecond | kThird | kFourth, "modes constant, reflect and edge; pads and value are constants"},
    {"Pow"},
    {"RNN"},
    {"Range", kFirst | kSecond | kThird, "of constants, while the file is read"},
    {"Reciprocal"},
    {"ReduceL1", kSecond, "as Abs, ReduceSum"},
    {"ReduceL2", kSecond, "as Mul, ReduceSum, Sqrt"},
    {"ReduceLogSum", kSecond, "as ReduceSum, Log"},
    {"ReduceLogSumExp", kSecond, "as ReduceMax, Sub, Exp, ReduceSum, Log, Add"},
    {"ReduceMax", kSecond},
    {"ReduceMean", kSecond},
    {"ReduceMin", kSecond},
    {"ReduceProd", kSecond},
    {"ReduceSum", kSecond},
    {"ReduceSumSquare", kSecond, "as Mul, ReduceSum"},
    {"Relu"},
    {"Reshape", kSecond, "the shape is known while the file is read"},
    {"Resize", kSecond | kThird | kFourth,
     "modes nearest, linear and cubic, not antialiased; sizes, scales and region are constants"},
    {"Round"},
    {"Scatter", 0, "as ScatterElements"},
    {"ScatterElements", 0, "reductions none, add and mul"},
    {"ScatterND", 0, "reductions none, add and mul"},
    {"Selu", 0, "as Elu, Mul"},
    {"Shape", 0, "while the file is read"},
    {"Sigmoid"},
    {"Sign"},
    {"Sin"},
    {"Sinh"},
    {"Size", 0, "while the file is read"},
    {"Slice", kSecond | kThird | kFourth | kFifth, "starts, ends, axes and steps are constants"},
    {"Softmax"},
    {"SoftmaxCrossEntropyLoss", 0,
     "fused where it is the mean over rows without weights, else as LogSoftmax and NegativeLogLikelihoodLoss"},
    {"Softplus"},
    {"Softsign", 0, "as Abs, Add, Div"},
    {"SpaceToDepth", 0, "as Reshape, Transpose, Reshape"},
    {"Split", kSecond, "the sizes are constants"},
    {"Sqrt"},
    {"Squeeze", kSecond, "the axes are constants"},
    {"Sub"},
    {"Sum", 0, "of any number of tensors"},
    {"Tan", 0, "as Sin, Cos, Div"},
    {"Tanh"},
    {"ThresholdedRelu", 0, "as Greater, Where"},
    {"Tile", kSecond, "the repeats are constants"},
    {"TopK", kSecond, "k is a constant"},
    {"Transpose"},
    {"Trilu", kSecond, "the diagonal is a constant"},
    {"Unsqueeze", kSecond, "the axes are constants"},
    {"Upsample", kSecond, "as Resize"},
    {"Where"},
    {"Xor"},
};

bool before(const ClaimedOperator &claim, std::string_view type) { return claim.type < type; }

static_assert(std::is_sorted(std::begin(kClaims), std::end(kClaims),
                             [](const ClaimedOperator &a, const ClaimedOperator &b) {
                                 return std::string_view(a.type) < b.type;
                             }));

} // namespace

std::span<const ClaimedOperator> claimedOperators() { return kClaims; }

const ClaimedOperator *findClaim(std::string_view type)
{
    const auto *found = std::lower_bound(std::begin(kClaims), std::end(kClaims), type, before);
    return found == std::end(kClaims) || type < found->type ? nullptr : found;
}

} // namespace planloom::import
