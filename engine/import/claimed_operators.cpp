// SPDX-License-Identifier: Apache-2.0
#include "engine/import/claimed_operators.h"

#include <algorithm>

namespace planloom::import {
namespace {

constexpr std::uint32_t kFirst = 1U << 0U;
constexpr std::uint32_t kSecond = 1U << 1U;
constexpr std::uint32_t kThird = 1U << 2U;
constexpr std::uint32_t kFourth = 1U << 3U;
constexpr std::uint32_t kFifth = 1U << 4U;

// Sorted by name: findClaim searches by halves. resources/docs/formats/onnx.md repeats this table, and a test compares the two.
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
    {"Cast", 0, "between numbers and truth values; not from or to strings"},
    {"Ceil"},
    {"Clip", kSecond | kThird, "the limits are constants"},
    {"Concat"},
    {"Constant", 0, "not strings, not sparse"},
    {"ConstantOfShape", kFirst, "the shape is known while the file is read"},
    {"Cos"},
    {"Cosh"},
    {"CumSum", kSecond, "the axis is a constant"},
    {"DepthToSpace", 0, "as Reshape, Transpose, Reshape"},
    {"Div"},
    {"Dropout", kSecond | kThird, "as in inference, or with ratio 0: nothing random is drawn"},
    {"Elu"},
    {"Equal"},
    {"Erf"},
    {"Exp"},
    {"Expand", kSecond, "the shape is known while the file is read"},
    {"Flatten"},
    {"Floor"},
    {"Gather"},
    {"GatherElements"},
    {"GatherND"},
    {"Gemm"},
    {"Greater"},
    {"GreaterOrEqual"},
    {"HardSigmoid"},
    {"HardSwish"},
    {"Identity", 0, "of tensors"},
    {"LeakyRelu"},
    {"Less"},
    {"LessOrEqual"},
    {"Log"},
    {"LogSoftmax"},
    {"MatMul"},
    {"Max", 0, "of any number of tensors"},
    {"Mean", 0, "of any number of tensors"},
    {"Min", 0, "of any number of tensors"},
    {"Mod"},
    {"Mul"},
    {"Neg"},
    {"Not"},
    {"OneHot", kSecond, "the depth is a constant"},
    {"Or"},
    {"PRelu", 0, "as Less, Mul, Where"},
    {"Pad", kSecond | kThird | kFourth, "modes constant, reflect and edge; pads and value are constants"},
    {"Pow"},
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
    {"Round"},
    {"Selu", 0, "as Elu, Mul"},
    {"Shape", 0, "while the file is read"},
    {"Sigmoid"},
    {"Sign"},
    {"Sin"},
    {"Sinh"},
    {"Size", 0, "while the file is read"},
    {"Slice", kSecond | kThird | kFourth | kFifth, "starts, ends, axes and steps are constants"},
    {"Softmax"},
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
    {"Transpose"},
    {"Trilu", kSecond, "the diagonal is a constant"},
    {"Unsqueeze", kSecond, "the axes are constants"},
    {"Where"},
    {"Xor"},
};

bool before(const ClaimedOperator &claim, std::string_view type)
{
    return claim.type < type;
}

static_assert(std::is_sorted(std::begin(kClaims), std::end(kClaims), [](const ClaimedOperator &a, const ClaimedOperator &b) {
    return std::string_view(a.type) < b.type;
}));

} // namespace

std::span<const ClaimedOperator> claimedOperators()
{
    return kClaims;
}

const ClaimedOperator *findClaim(std::string_view type)
{
    const auto *found = std::lower_bound(std::begin(kClaims), std::end(kClaims), type, before);
    return found == std::end(kClaims) || type < found->type ? nullptr : found;
}

} // namespace planloom::import
