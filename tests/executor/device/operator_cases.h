// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/indexing_cases.h"
#include "executor/device/operator_case.h"
#include "executor/device/operator_cases_recurrent.h"
#include "executor/device/operator_cases_scatter.h"

#include "engine/graph/operators/operators.h"

#include <set>
#include <string_view>

// The cases that both kernel tests run: every operator type, on several shapes. Inputs keep away from kinks, so that
// finite differences mean something there.
namespace planloom::cases {

inline std::int64_t n(std::int64_t value) { return value; }

/// Element-wise operators of one tensor in the registry that are defined for all numbers: a new one is tried without
/// a word here. Others have cases of their own.
inline std::vector<const char *> functionsOfOneTensor()
{
    static const std::set<std::string_view> kOwnCases{"Sqrt", "Reciprocal", "Log",  "Clip",  "Not",  "Acos", "Acosh",
                                                      "Asin", "Asinh",      "Atan", "Atanh", "Cosh", "Sinh"};
    std::vector<const char *> types;
    for (const graph::Operator &row : graph::operators())
        if (row.traits.elementWise == graph::ElementWise::Computes && row.traits.origin == graph::Origin::Model
            && row.inputs.most == 1 && !kOwnCases.contains(row.type))
            types.push_back(row.type);
    return types;
}

inline std::vector<Case> elementwiseCases()
{
    std::vector<Case> all{
        {"Add same shape", "Add", {batch({4, 7}), batch({4, 7})}},
        {"Add bias", "Add", {batch({4, 3, 5}), real({5})}},
        {"Add both broadcast", "Add", {batch({2, 1, 3}), real({4, 1})}},
        {"Add scalar", "Add", {real({17}), real({})}},
        {"Add of size 1", "Add", {real({1}), real({1, 1})}},
        {"Sub", "Sub", {batch({4, 3}), real({3})}},
        {"Sub from row", "Sub", {real({3}), batch({4, 3})}},
        {"Mul", "Mul", {batch({2, 3, 4}), real({3, 1})}},
        {"Mul large", "Mul", {batch({64, 33}), batch({64, 33})}},
        {"Div", "Div", {batch({4, 3}), real({3}, 0.5, 2)}},
        {"Div of row", "Div", {real({5}), batch({2, 5}, 1, 2)}},
        {"Pow square", "Pow", {batch({4, 5}), frozen(fixed({}, {2}))}},
        {"Pow any", "Pow", {batch({4, 5}, 0.5, 2), real({5}, -1, 3)}},
        {"Min", "Min", {batch({4, 6}), real({6})}},
        {"Max", "Max", {batch({4, 6}), real({6})}},
        {"Where", "Where", {truth({3, 1}), batch({2, 3, 4}), real({4})}},
        {"Where scalar", "Where", {truth({5}), real({5}), real({})}},
        {"Cast", "Cast", {batch({4, 3})}, {{"to", std::string("float32")}}},
        {"Cast to int", "Cast", {real({9}, -5, 5)}, {{"to", std::string("int64")}}},
        {"Equal", "Equal", {fixed({4}, {1, 2, 3, 4}), fixed({4}, {1, 0, 3, 0})}},
        {"Less", "Less", {real({3, 4}), real({4})}},
        {"Greater", "Greater", {real({3, 4}), real({4})}},
        {"And", "And", {truth({3, 4}), truth({4})}},
        {"Or", "Or", {truth({3, 4}), truth({3, 1})}},
        {"Not", "Not", {truth({7})}},
    };
    std::vector<const char *> types = functionsOfOneTensor();
    types.insert(types.end(), {"Identity", "Dropout"});
    for (const char *type : types) {
        all.push_back({type, type, {batch({6, 17}, -4, 4)}});
        all.push_back({type, type, {real({1}, 0.3, 0.4)}});
    }
    for (const char *type : {"Sqrt", "Reciprocal", "Log"})
        all.push_back({type, type, {batch({4, 9}, 0.4, 3)}});
    all.push_back({"AddN", "AddN", {batch({4, 6}), batch({4, 6}), batch({4, 6})}});
    all.push_back({"LeakyRelu alpha", "LeakyRelu", {real({21})}, {{"alpha", 0.3}}});
    all.push_back({"Elu alpha", "Elu", {real({21}, -3, 3)}, {{"alpha", 0.7}}});
    all.push_back({"HardSigmoid alpha beta", "HardSigmoid", {real({21}, -3, 3)}, {{"alpha", 0.4}, {"beta", 0.3}}});
    all.push_back({"Gelu tanh", "Gelu", {batch({8, 21}, -5, 5)}, {{"approximate", std::string("tanh")}}});
    all.push_back({"Clip", "Clip", {real({40}, -3, 3)}, {{"min", -1.0}, {"max", 1.5}}});
    all.push_back({"Clip one side", "Clip", {real({40}, -3, 3)}, {{"max", 0.5}}});
    return all;
}

inline std::vector<Case> matrixCases()
{
    const Attributes heads{{"heads", n(2)}, {"causal", n(1)}};
    return {
        {"MatMul 2-d", "MatMul", {batch({4, 5}), real({5, 3})}},
        {"MatMul one row", "MatMul", {real({1, 7}), real({7, 1})}},
        {"MatMul weight", "MatMul", {batch({2, 3, 5}), real({5, 4})}},
        {"MatMul batched", "MatMul", {batch({2, 3, 4, 5}), batch({2, 3, 5, 2})}},
        {"MatMul batch broadcast", "MatMul", {batch({2, 1, 3, 4}), real({3, 4, 2})}},
        {"MatMul large", "MatMul", {batch({34, 65}), real({65, 33})}},
        {"Gemm", "Gemm", {batch({4, 5}), real({5, 3}), real({3})}},
        {"Gemm without C", "Gemm", {batch({4, 5}), real({3, 5})}, {{"transB", n(1)}}},
        {"Gemm all",
         "Gemm",
         {real({5, 4}), real({3, 5}), real({4, 1})},
         {{"transA", n(1)}, {"transB", n(1)}, {"alpha", 0.5}, {"beta", 2.0}}},
        {"Gemm full C", "Gemm", {real({4, 5}), real({5, 3}), real({4, 3})}},
        {"Attention causal", "Attention", {batch({2, 5, 24})}, heads, 2},
        {"Attention one token", "Attention", {batch({2, 1, 24})}, heads, 2},
        {"Attention full", "Attention", {batch({2, 7, 36})}, {{"heads", n(3)}}, 2},
        {"Attention grouped",
         "Attention",
         {batch({2, 6, 32})},
         {{"heads", n(4)}, {"kv_heads", n(2)}, {"causal", n(1)}},
         2},
        {"Attention masked",
         "Attention",
         {batch({2, 5, 24}), batched(given({2, 5}, {1, 1, 1, 0, 0, 1, 0, 1, 1, 1}))},
         {{"heads", n(2)}},
         2},
        {"Attention sees nothing", "Attention", {real({2, 3, 12}), given({2, 3}, {0, 0, 0, 0, 1, 1})}, heads, 2},
        {"Attention tiles", "Attention", {real({1, 203, 24}, -2, 2)}, heads, 2},
        {"Attention wide heads", "Attention", {real({1, 110, 120}, -2, 2)}, heads, 2},
        {"Attention full tiles", "Attention", {real({1, 150, 24}, -2, 2)}, {{"heads", n(2)}}, 2},
        {"RotaryEmbedding", "RotaryEmbedding", {batch({2, 5, 24})}, {{"heads", n(2)}, {"theta", 100.0}}},
        {"RotaryEmbedding grouped", "RotaryEmbedding", {batch({2, 3, 32})}, {{"heads", n(4)}, {"kv_heads", n(2)}}},
        {"RotaryEmbedding scaled",
         "RotaryEmbedding",
         {batch({2, 5, 24})},
         {{"heads", n(2)}, {"inverse_frequencies", std::vector<double>{0.5, 0.25}}}},
        {"RotaryEmbedding of a part",
         "RotaryEmbedding",
         {batch({2, 5, 48})},
         {{"heads", n(2)}, {"inverse_frequencies", std::vector<double>{1, 0.3, 0.1}}}},
    };
}

inline std::vector<Case> imageCases()
{
    const Ints k3{3, 3};
    const Ints pad1{1, 1, 1, 1};
    const Ints two{2, 2};
    return {
        {"Conv 3x3",
         "Conv",
         {batch({2, 3, 6, 5}), real({4, 3, 3, 3}), real({4})},
         {{"kernel_shape", k3}, {"pads", pad1}}},
        {"Conv strided",
         "Conv",
         {batch({2, 2, 7, 8}), real({3, 2, 3, 3})},
         {{"kernel_shape", k3}, {"pads", pad1}, {"strides", two}}},
        {"Conv uneven pads",
         "Conv",
         {real({1, 2, 5, 6}), real({3, 2, 2, 3})},
         {{"kernel_shape", Ints{2, 3}}, {"pads", Ints{0, 1, 1, 0}}, {"strides", two}}},
        {"Conv dilated", "Conv", {real({1, 2, 8, 7}), real({3, 2, 3, 3})}, {{"kernel_shape", k3}, {"dilations", two}}},
        {"Conv grouped",
         "Conv",
         {batch({2, 4, 5, 5}), real({6, 2, 3, 3}), real({6})},
         {{"kernel_shape", k3}, {"group", n(2)}, {"pads", pad1}}},
        {"Conv depthwise",
         "Conv",
         {batch({2, 4, 5, 5}), real({4, 1, 3, 3})},
         {{"kernel_shape", k3}, {"group", n(4)}, {"pads", pad1}}},
        {"Conv 1x1 wide", "Conv", {batch({2, 16, 4, 4}), real({24, 16, 1, 1})}, {{"kernel_shape", Ints{1, 1}}}},
        {"Conv 1-d",
         "Conv",
         {batch({2, 3, 9}), real({4, 3, 3}), real({4})},
         {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1, 1}}}},
        {"MaxPool", "MaxPool", {batch({2, 3, 6, 7})}, {{"kernel_shape", k3}, {"strides", two}, {"pads", pad1}}},
        {"MaxPool indices", "MaxPool", {real({1, 2, 4, 4})}, {{"kernel_shape", two}, {"strides", two}}, 2},
        {"MaxPool 1-d", "MaxPool", {batch({2, 3, 8})}, {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}}},
        {"MaxPool dilated", "MaxPool", {real({1, 2, 7, 7})}, {{"kernel_shape", two}, {"dilations", two}}},
        {"MaxPool rounded up",
         "MaxPool",
         {batch({2, 2, 6, 6})},
         {{"kernel_shape", k3}, {"strides", two}, {"ceil_mode", n(1)}}},
        {"AveragePool rounded up",
         "AveragePool",
         {batch({2, 2, 6, 6})},
         {{"kernel_shape", k3}, {"strides", two}, {"ceil_mode", n(1)}}},
        {"AveragePool", "AveragePool", {batch({2, 3, 6, 7})}, {{"kernel_shape", k3}, {"strides", two}, {"pads", pad1}}},
        {"AveragePool with pad",
         "AveragePool",
         {batch({2, 3, 6, 6})},
         {{"kernel_shape", k3}, {"strides", Ints{1, 2}}, {"pads", pad1}, {"count_include_pad", n(1)}}},
        {"AveragePool 1-d", "AveragePool", {batch({2, 2, 7})}, {{"kernel_shape", Ints{3}}}},
        {"GlobalAveragePool", "GlobalAveragePool", {batch({2, 5, 3, 7})}},
        {"GlobalMaxPool", "GlobalMaxPool", {batch({2, 5, 3, 7})}},
        {"BatchNormalization",
         "BatchNormalization",
         {batch({4, 3, 2, 5}), real({3}, 0.5, 2), real({3}), frozen(real({3})), frozen(real({3}, 0.5, 1))},
         {},
         3},
        {"BatchNormalization flat",
         "BatchNormalization",
         {batch({6, 3}, 2, 5), real({3}, 0.5, 2), real({3}), frozen(real({3})), frozen(real({3}, 0.5, 1))},
         {{"epsilon", 1e-3}},
         3},
    };
}

inline std::vector<Case> normalisationCases()
{
    return {
        {"Softmax", "Softmax", {batch({4, 9}, -3, 3)}},
        {"Softmax middle axis", "Softmax", {batch({2, 5, 3}, -3, 3)}, {{"axis", n(1)}}},
        {"Softmax of one", "Softmax", {real({3, 1})}},
        {"LogSoftmax", "LogSoftmax", {batch({4, 9}, -3, 3)}},
        {"LogSoftmax first axis", "LogSoftmax", {real({4, 3}, -3, 3)}, {{"axis", n(0)}}},
        {"LayerNormalization", "LayerNormalization", {batch({2, 3, 13}, -2, 2), real({13}, 0.5, 2), real({13})}, {}, 3},
        {"LayerNormalization without bias",
         "LayerNormalization",
         {batch({4, 8}, -2, 2), real({8}, 0.5, 2)},
         {{"epsilon", 1e-3}},
         3},
        {"LayerNormalization two axes",
         "LayerNormalization",
         {batch({4, 3, 5}, -2, 2), real({3, 5}, 0.5, 2), real({3, 5})},
         {{"axis", n(-2)}},
         3},
        {"LayerNormalization many rows",
         "LayerNormalization",
         {batch({70, 6}, -2, 2), real({6}, 0.5, 2), real({6})},
         {},
         3},
        {"RMSNormalization",
         "RMSNormalization",
         {batch({2, 3, 13}, -2, 2), real({13}, 0.5, 2)},
         {{"epsilon", 1e-6}},
         2},
        {"SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss", {batch({4, 9}, -3, 3), index({4}, 9, true)}, {}, 2},
        {"SoftmaxCrossEntropyLoss ignores",
         "SoftmaxCrossEntropyLoss",
         {real({5, 3}, -30, 30), given({5}, {0, -100, 2, -100, 1})},
         {},
         2},
        {"SoftmaxCrossEntropyLoss all ignored",
         "SoftmaxCrossEntropyLoss",
         {real({2, 3}), given({2}, {7, 7})},
         {{"ignore_index", n(7)}},
         2},
        {"MeanSquaredErrorLoss", "MeanSquaredErrorLoss", {batch({4, 9}), frozen(batch({4, 9}))}},
        {"MeanSquaredErrorLoss masked", "MeanSquaredErrorLoss", {real({3, 5}), frozen(real({3, 5})), truth({3, 5})}},
        {"MeanSquaredErrorLoss of a part", "MeanSquaredErrorLoss", {real({7}), frozen(real({7}))}, {{"share", 0.25}}},
        {"MeanSquaredErrorLoss of many",
         "MeanSquaredErrorLoss",
         {batch({2, 8500}, 0, 1), frozen(batch({2, 8500}, 2, 3))}},
        {"MeanSquaredErrorLoss all masked",
         "MeanSquaredErrorLoss",
         {real({3}), frozen(real({3})), given({3}, {0, 0, 0}, DType::Bool)}},
        {"MeanAbsoluteErrorLoss", "MeanAbsoluteErrorLoss", {batch({4, 9}), frozen(batch({4, 9}))}},
        {"MeanAbsoluteErrorLoss masked", "MeanAbsoluteErrorLoss", {real({3, 5}), frozen(real({3, 5})), truth({3, 5})}},
        {"HuberLoss", "HuberLoss", {batch({4, 9}, -3, 3), frozen(batch({4, 9}))}},
        {"HuberLoss delta", "HuberLoss", {real({4, 9}), frozen(real({4, 9})), truth({4, 9})}, {{"delta", 0.25}}},
        {"SigmoidCrossEntropyLoss", "SigmoidCrossEntropyLoss", {batch({4, 9}, -6, 6), frozen(batch({4, 9}, 0, 1))}},
        {"SigmoidCrossEntropyLoss masked",
         "SigmoidCrossEntropyLoss",
         {real({3, 5}, -3, 3), frozen(real({3, 5}, 0, 1)), truth({3, 5})}},
    };
}

inline std::vector<Case> shapeCases()
{
    return {
        {"Flatten", "Flatten", {batch({2, 3, 4})}},
        {"Flatten axis", "Flatten", {batch({2, 3, 4})}, {{"axis", n(2)}}},
        {"Reshape", "Reshape", {batch({4, 6})}, {{"shape", Ints{1, 4, -1}}, {"batch_axis", n(0)}}},
        {"Squeeze", "Squeeze", {batch({4, 1, 3})}, {{"axes", Ints{1}}}},
        {"Unsqueeze", "Unsqueeze", {batch({4, 3})}, {{"axes", Ints{1}}}},
        {"Transpose", "Transpose", {batch({2, 3, 4, 5})}, {{"perm", Ints{0, 2, 1, 3}}}},
        {"Transpose 2-d", "Transpose", {real({37, 19})}, {{"perm", Ints{1, 0}}}},
        {"Transpose 3-d", "Transpose", {real({2, 3, 4})}, {{"perm", Ints{2, 0, 1}}}},
        {"Concat", "Concat", {batch({2, 3, 2}), batch({2, 1, 2}), batch({2, 2, 2})}, {{"axis", n(1)}}},
        {"Concat last axis", "Concat", {batch({2, 3}), batch({2, 5})}, {{"axis", n(-1)}}},
        {"Split", "Split", {batch({2, 6})}, {{"axis", n(1)}, {"split", Ints{1, 3, 2}}}, 3},
        {"Slice",
         "Slice",
         {batch({2, 7, 5})},
         {{"starts", Ints{1, -3}}, {"ends", Ints{6, 9}}, {"axes", Ints{1, 2}}, {"steps", Ints{2, 1}}}},
        {"Slice backwards",
         "Slice",
         {real({7, 3})},
         {{"starts", Ints{-1}}, {"ends", Ints{-100}}, {"axes", Ints{0}}, {"steps", Ints{-2}}}},
        {"Expand", "Expand", {batch({2, 1, 3})}, {{"shape", Ints{1, 4, 3}}, {"batch_axis", n(0)}}},
        {"Expand new axis", "Expand", {real({3, 1})}, {{"shape", Ints{2, 3, 4}}, {"batch_axis", n(-1)}}},
        {"Tile", "Tile", {batch({2, 3})}, {{"repeats", Ints{1, 3}}}},
        {"Tile both", "Tile", {real({2, 3, 2})}, {{"repeats", Ints{3, 1, 2}}}},
        {"Pad", "Pad", {batch({2, 3, 4})}, {{"pads", Ints{0, 1, 2, 0, 0, 1}}, {"value", 0.5}}},
        {"Gather rows", "Gather", {real({6, 5}), index({2, 3}, 6, true)}},
        {"Gather repeats", "Gather", {real({3, 20}), given({5}, {2, 0, 2, 2, -1})}},
        {"Gather axis", "Gather", {batch({2, 4, 3}), given({2}, {3, 1})}, {{"axis", n(1)}}},
        {"Gather scalar", "Gather", {batch({2, 4, 3}), given({}, {2})}, {{"axis", n(1)}}},
        {"Trilu lower", "Trilu", {batch({2, 4, 5})}, {{"upper", n(0)}}},
        {"Trilu upper", "Trilu", {batch({2, 4, 5})}, {{"upper", n(1)}, {"k", n(-1)}}},
        {"ConstantOfShape", "ConstantOfShape", {}, {{"shape", Ints{3, 4}}, {"batch_axis", n(-1)}, {"value", 2.5}}},
    };
}

inline std::vector<Case> reductionCases()
{
    std::vector<Case> all;
    for (const char *type : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"}) {
        all.push_back({type, type, {batch({4, 5}, 0.5, 1.5)}, {{"axes", Ints{1}}, {"keepdims", n(1)}}});
        all.push_back({type, type, {batch({2, 3, 4, 2}, 0.5, 1.5)}, {{"axes", Ints{1, 3}}, {"keepdims", n(0)}}});
        all.push_back({type, type, {batch({4, 5}, 0.5, 1.5)}, {{"axes", Ints{0}}, {"keepdims", n(0)}}});
        all.push_back({type, type, {real({3, 70, 2}, 0.9, 1.1)}, {{"axes", Ints{-2}}, {"keepdims", n(1)}}});
        all.push_back({type, type, {batch({6, 4}, 0.5, 1.5)}, {{"axes", Ints{0, 1}}, {"keepdims", n(0)}}});
    }
    all.push_back({"ReduceProd with a zero",
                   "ReduceProd",
                   {fixed({3, 2}, {0, 2, 3, 4, 0, 0})},
                   {{"axes", Ints{1}}, {"keepdims", n(0)}}});
    all.push_back({"ArgMax", "ArgMax", {real({3, 5, 2})}, {{"axis", n(1)}, {"keepdims", n(0)}}});
    all.push_back({"CumSum", "CumSum", {batch({2, 5, 3})}, {{"axis", n(1)}}});
    all.push_back({"CumSum exclusive reverse",
                   "CumSum",
                   {batch({2, 5})},
                   {{"axis", n(1)}, {"exclusive", n(1)}, {"reverse", n(1)}}});
    return all;
}

/// Forward-only operators: differentiation refuses them, or makes them itself.
inline std::vector<Case> forwardOnlyCases()
{
    return {
        {"MatMul of transposed", "MatMul", {real({2, 5, 4}), real({2, 3, 5})}, {{"transA", n(1)}, {"transB", n(1)}}},
        {"MatMul of transposed weight", "MatMul", {batch({2, 3, 5}), real({4, 5})}, {{"transB", n(1)}}},
        {"MatMul of transposed rows", "MatMul", {real({2, 5, 4}), real({5, 3})}, {{"transA", n(1)}}},
        {"BatchNormalization inference",
         "BatchNormalization",
         {batch({4, 3, 5}), real({3}, 0.5, 2), real({3}), real({3}), real({3}, 0.5, 1)},
         {{"training_mode", n(0)}}},
        {"Transpose many", "Transpose", {real({20, 33, 18})}, {{"perm", Ints{0, 2, 1}}}},
        {"Transpose 4-d", "Transpose", {real({3, 17, 5, 18})}, {{"perm", Ints{3, 1, 0, 2}}}},
        {"Transpose of integers", "Transpose", {index({19, 35}, 9)}, {{"perm", Ints{1, 0}}}},
        {"Transpose of truth", "Transpose", {truth({3, 4})}},
        {"Gather integers", "Gather", {index({5, 2}, 99), index({3}, 5)}},
        {"Cast from integers", "Cast", {index({7}, 9)}, {{"to", std::string("float32")}}},
        {"Cast to truth", "Cast", {index({7}, 2)}, {{"to", std::string("bool")}}},
        {"Equal integers", "Equal", {index({20}, 3), index({20}, 3)}},
        {"Softmax large", "Softmax", {real({3, 70}, -200, 200)}},
        {"SpMM of lists that do not fit", "SpMM", {given({4}, {2, 1, -3, 99}), given({3}, {0, 7, -1}), real({4, 3})}},
    };
}

inline std::vector<Case> allCases()
{
    std::vector<Case> all;
    for (const auto &family : {elementwiseCases(), matrixCases(), imageCases(), normalisationCases(), shapeCases(),
                               reductionCases(), indexingCases(), recurrentCases(), scatterCases()})
        all.insert(all.end(), family.begin(), family.end());
    return all;
}

} // namespace planloom::cases
