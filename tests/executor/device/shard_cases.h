// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/operator_cases.h"

// Cases for sharding: sizes that divide by two along every axis that may be split.
namespace planloom::cases {

inline std::vector<Case> shardMatrixCases()
{
    return {
        {"MatMul", "MatMul", {real({4, 6}), real({6, 8})}},
        {"MatMul rows of samples", "MatMul", {batch({8, 6}), real({6, 8})}},
        {"MatMul weight", "MatMul", {batch({2, 4, 8}), real({8, 12})}},
        {"MatMul transB", "MatMul", {batch({2, 4, 8}), real({12, 8})}, {{"transB", n(1)}}},
        {"MatMul transA", "MatMul", {real({2, 8, 4}), real({2, 8, 6})}, {{"transA", n(1)}}},
        {"MatMul both transposed", "MatMul", {real({2, 8, 4}), real({2, 6, 8})}, {{"transA", n(1)}, {"transB", n(1)}}},
        {"MatMul batched", "MatMul", {batch({2, 2, 4, 6}), batch({2, 2, 6, 2})}},
        {"MatMul broadcast", "MatMul", {batch({2, 1, 4, 6}), real({2, 6, 2})}},
        {"Gemm", "Gemm", {real({4, 6}), real({6, 8}), real({8})}},
        {"Gemm all",
         "Gemm",
         {real({6, 4}), real({8, 6}), real({4, 1})},
         {{"transA", n(1)}, {"transB", n(1)}, {"alpha", 0.5}, {"beta", 2.0}}},
        {"Gemm without C", "Gemm", {batch({4, 6}), real({8, 6})}, {{"transB", n(1)}}},
        {"Attention", "Attention", {batch({2, 5, 24})}, {{"heads", n(2)}, {"causal", n(1)}}, 2},
        {"Attention of two", "Attention", {real({2, 5, 24})}, {{"heads", n(2)}}, 2},
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
        {"RotaryEmbedding grouped", "RotaryEmbedding", {batch({2, 3, 32})}, {{"heads", n(4)}, {"kv_heads", n(2)}}},
        {"RotaryEmbedding of a part",
         "RotaryEmbedding",
         {batch({2, 3, 48})},
         {{"heads", n(2)}, {"inverse_frequencies", std::vector<double>{1, 0.3, 0.1}}}},
    };
}

inline std::vector<Case> shardLayerCases()
{
    const Ints k3{3, 3};
    const Ints pad1{1, 1, 1, 1};
    const Ints two{2, 2};
    return {
        {"Conv", "Conv", {real({2, 4, 6, 5}), real({6, 4, 3, 3}), real({6})}, {{"kernel_shape", k3}, {"pads", pad1}}},
        {"Conv without bias", "Conv", {batch({2, 4, 6, 5}), real({6, 4, 3, 3})}, {{"kernel_shape", k3}}},
        {"Conv grouped",
         "Conv",
         {batch({2, 8, 5, 5}), real({4, 2, 3, 3}), real({4})},
         {{"kernel_shape", k3}, {"group", n(4)}, {"pads", pad1}}},
        {"Conv depthwise",
         "Conv",
         {batch({2, 4, 5, 5}), real({4, 1, 3, 3})},
         {{"kernel_shape", k3}, {"group", n(4)}, {"pads", pad1}}},
        {"MaxPool", "MaxPool", {batch({2, 4, 6, 7})}, {{"kernel_shape", k3}, {"strides", two}, {"pads", pad1}}},
        {"AveragePool", "AveragePool", {batch({2, 4, 6, 7})}, {{"kernel_shape", k3}, {"strides", two}, {"pads", pad1}}},
        {"GlobalAveragePool", "GlobalAveragePool", {real({2, 4, 3, 7})}},
        {"GlobalMaxPool", "GlobalMaxPool", {real({2, 4, 3, 7})}},
        {"BatchNormalization",
         "BatchNormalization",
         {batch({4, 6, 2, 5}), real({6}, 0.5, 2), real({6}), frozen(real({6})), frozen(real({6}, 0.5, 1))},
         {},
         3},
        {"LayerNormalization", "LayerNormalization", {batch({2, 4, 6}, -2, 2), real({6}, 0.5, 2), real({6})}, {}, 3},
        {"LayerNormalization without bias", "LayerNormalization", {batch({8, 6}, -2, 2), real({6}, 0.5, 2)}, {}, 3},
        {"RMSNormalization", "RMSNormalization", {batch({2, 4, 6}, -2, 2), real({6}, 0.5, 2)}, {}, 2},
        {"MatMulGelu",
         "MatMulGelu",
         {frozen(real({4, 6})), frozen(real({6, 8})), frozen(real({8}))},
         {{"approximate", std::string("tanh")}},
         2},
        {"MatMulGelu of samples",
         "MatMulGelu",
         {frozen(batch({2, 4, 6})), frozen(real({8, 6})), frozen(real({8}))},
         {{"transB", n(1)}},
         2},
        {"MatMulGeluGrad",
         "MatMulGeluGrad",
         {frozen(batch({2, 4, 6})), frozen(real({8, 6})), frozen(batch({2, 4, 8}))},
         {{"transB", n(1)}}},
        {"AddLayerNormalization",
         "AddLayerNormalization",
         {frozen(real({2, 4, 6})), frozen(real({2, 4, 6})), frozen(real({6})), frozen(real({6}))},
         {},
         4},
        {"AddRMSNormalization",
         "AddRMSNormalization",
         {frozen(real({2, 4, 6})), frozen(real({2, 4, 6})), frozen(real({6}))},
         {},
         3},
        {"ProximalTanh",
         "ProximalTanh",
         {frozen(batch({4, 6})), frozen(batch({4, 6})), frozen(batch({4, 6}))},
         {{"p", 2.0}, {"q", 3.0}, {"iterations", n(3)}}},
        {"ProximalCrossEntropy",
         "ProximalCrossEntropy",
         {frozen(batch({4, 6})), frozen(batch({4, 6})), batched(given({4}, {0, 5, 3, 2}))},
         {{"penalty", 0.5}, {"iterations", n(6)}}},
        {"OuterSums",
         "OuterSums",
         {frozen(batch({8, 5})), frozen(batch({8, 3}))},
         {{"weights", std::vector<double>{0.7}}},
         2},
        {"OuterSums of steps",
         "OuterSums",
         {frozen(real({2, 6, 4})), frozen(real({2, 6, 3}))},
         {{"weights", std::vector<double>{0.7, 1.5}}},
         2},
        {"Softmax", "Softmax", {real({4, 6, 8}, -3, 3)}, {{"axis", n(1)}}},
        {"LogSoftmax", "LogSoftmax", {real({4, 6}, -3, 3)}},
        {"Loss",
         "SoftmaxCrossEntropyLoss",
         {batch({8, 6}, -3, 3), batched(given({8}, {0, 5, -100, 3, 2, 1, -100, 4}))},
         {},
         2},
        {"Loss that ignores a class",
         "SoftmaxCrossEntropyLoss",
         {real({6, 8}, -3, 3), given({6}, {0, 2, 7, 6, 2, 1})},
         {{"ignore_index", n(2)}},
         2},
        {"Loss of a wrong label", "SoftmaxCrossEntropyLoss", {real({4, 8}, -3, 3), given({4}, {0, 2, 11, -3})}, {}, 2},
        {"MeanSquaredErrorLoss", "MeanSquaredErrorLoss", {batch({4, 6, 2}), frozen(batch({4, 6, 2}))}},
        {"MeanAbsoluteErrorLoss", "MeanAbsoluteErrorLoss", {real({4, 6}), frozen(real({4, 6}))}},
        {"HuberLoss", "HuberLoss", {real({4, 6}, -3, 3), frozen(real({4, 6}))}, {{"delta", 0.5}}},
        {"SigmoidCrossEntropyLoss", "SigmoidCrossEntropyLoss", {batch({4, 6}), frozen(batch({4, 6}, 0, 1))}},
        {"SigmoidCrossEntropyLoss masked",
         "SigmoidCrossEntropyLoss",
         {real({4, 6}), frozen(real({4, 6}, 0, 1)), truth({4, 6})}},
    };
}

inline std::vector<Case> shardShapeCases()
{
    return {
        {"Flatten", "Flatten", {batch({2, 4, 6})}},
        {"Reshape joins samples and rows",
         "Reshape",
         {batch({2, 4, 6})},
         {{"shape", Ints{4, 6}}, {"batch_axis", n(0)}}},
        {"Reshape parts samples and rows",
         "Reshape",
         {batch({8, 6})},
         {{"shape", Ints{1, 4, 6}}, {"batch_axis", n(0)}}},
        {"Reshape into heads", "Reshape", {batch({2, 4, 12})}, {{"shape", Ints{0, 0, 2, 6}}}},
        {"Reshape packed into heads", "Reshape", {real({4, 24})}, {{"shape", Ints{4, 3, 2, -1}}}},
        {"Reshape heads into one", "Reshape", {real({4, 3, 2, 4})}, {{"shape", Ints{4, 24}}}},
        {"Reshape across", "Reshape", {real({4, 6})}, {{"shape", Ints{6, 4}}}},
        {"Squeeze all", "Squeeze", {real({4, 1, 2})}},
        {"Squeeze", "Squeeze", {real({4, 1, 2})}, {{"axes", Ints{1}}}},
        {"Unsqueeze", "Unsqueeze", {batch({4, 6})}, {{"axes", Ints{0, 2}}}},
        {"Transpose", "Transpose", {real({2, 4, 6})}, {{"perm", Ints{2, 0, 1}}}},
        {"Transpose reversed", "Transpose", {real({2, 4, 6})}},
        {"Concat", "Concat", {batch({2, 4, 2}), batch({2, 2, 2}), batch({2, 8, 2})}, {{"axis", n(1)}}},
        {"Split", "Split", {batch({2, 12})}, {{"axis", n(1)}, {"split", Ints{2, 4, 6}}}, 3},
        {"Slice", "Slice", {real({4, 8, 6})}, {{"starts", Ints{2}}, {"ends", Ints{-2}}, {"axes", Ints{1}}}},
        {"Slice of everything",
         "Slice",
         {real({4, 8})},
         {{"starts", Ints{0, 0}}, {"ends", Ints{99, -1}}, {"axes", Ints{0, 1}}}},
        {"Slice backwards",
         "Slice",
         {real({8, 4})},
         {{"starts", Ints{-1}}, {"ends", Ints{-100}}, {"axes", Ints{0}}, {"steps", Ints{-2}}}},
        {"Expand", "Expand", {batch({2, 1, 4})}, {{"shape", Ints{1, 6, 4}}, {"batch_axis", n(0)}}},
        {"Expand new axis", "Expand", {real({4, 1})}, {{"shape", Ints{2, 4, 6}}, {"batch_axis", n(-1)}}},
        {"Tile", "Tile", {real({4, 2})}, {{"repeats", Ints{1, 3}}}},
        {"Pad", "Pad", {real({2, 4, 6})}, {{"pads", Ints{0, 1, 0, 0, 2, 0}}, {"value", 0.5}}},
        {"Pad with zeros", "Pad", {real({4, 6})}, {{"pads", Ints{0, 1, 0, 2}}}},
        {"Gather rows", "Gather", {real({6, 8}), index({2, 4}, 6, true)}},
        {"Gather from the end", "Gather", {real({6, 2}), given({6}, {2, 0, -2, 5, -6, 3})}},
        {"Gather nothing", "Gather", {real({4, 2}), given({2}, {2, 9})}},
        {"Gather axis", "Gather", {batch({2, 4, 6}), given({2}, {3, 1})}, {{"axis", n(1)}}},
        {"Trilu", "Trilu", {real({2, 4, 6})}, {{"upper", n(0)}}},
        {"ScatterElements",
         "ScatterElements",
         {real({4, 6}), given({2, 6}, {3, 0, 1, 2, 3, 0, 1, 1, 2, 0, 0, 3}), real({2, 6})},
         {{"axis", n(0)}, {"reduction", std::string("none")}}},
        {"ScatterND",
         "ScatterND",
         {real({4, 6}), given({2, 1}, {3, 1}), real({2, 6})},
         {{"reduction", std::string("none")}}},
        {"TopK", "TopK", {real({4, 6})}, {{"k", n(2)}}, 2},
        {"SpMM",
         "SpMM",
         {given({4}, {2, 2, 5, 6}), given({8}, {0, 2, 1, 1, 3, 0, 0, 0}), real({4, 8}), real({8})},
         {{"reduce", std::string("mean")}}},
        {"ConstantOfShape", "ConstantOfShape", {}, {{"shape", Ints{4, 6}}, {"batch_axis", n(-1)}, {"value", 2.5}}},
    };
}

inline std::vector<Case> shardElementwiseCases()
{
    std::vector<Case> all;
    for (const char *type : {"Add", "Sub", "Mul", "Div", "Min", "Max"}) {
        all.push_back({type, type, {batch({2, 4, 6}), real({6}, 0.5, 2)}});
        all.push_back({type, type, {real({4, 1}), batch({2, 4, 6}, 0.5, 2)}});
    }
    all.push_back({"Pow", "Pow", {real({4, 6}, 0.5, 2), real({6}, -1, 3)}});
    all.push_back({"Where", "Where", {truth({4, 1}), batch({2, 4, 6}), real({6})}});
    all.push_back({"Cast to int", "Cast", {real({8}, -5, 5)}, {{"to", std::string("int64")}}});
    all.push_back({"Cast", "Cast", {real({8}, -5, 5)}, {{"to", std::string("float32")}}});
    for (const char *type : {"Equal", "Less", "Greater"})
        all.push_back({type, type, {real({4, 6}), real({6})}});
    for (const char *type : {"And", "Or"})
        all.push_back({type, type, {truth({4, 6}), truth({4, 1})}});
    all.push_back({"Not", "Not", {truth({8})}});
    all.push_back({"AddN", "AddN", {batch({4, 6}), batch({4, 6}), batch({4, 6})}});
    std::vector<const char *> types = functionsOfOneTensor();
    types.insert(types.end(), {"Clip", "Identity", "Dropout", "Sqrt", "Reciprocal", "Log"});
    for (const char *type : types)
        all.push_back({type, type, {batch({2, 4, 8}, 0.4, 3)}});
    return all;
}

inline std::vector<Case> shardReductionCases()
{
    std::vector<Case> all;
    for (const char *type : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"})
        for (const std::int64_t keep : {0, 1}) {
            all.push_back({type, type, {batch({2, 4, 6}, 0.5, 1.5)}, {{"axes", Ints{1}}, {"keepdims", keep}}});
            all.push_back({type, type, {real({4, 6}, 0.5, 1.5)}, {{"axes", Ints{0}}, {"keepdims", keep}}});
        }
    all.push_back({"ReduceSum", "ReduceSum", {real({4, 6})}, {{"keepdims", n(0)}}});
    all.push_back({"ArgMax", "ArgMax", {real({4, 6, 2})}, {{"axis", n(1)}, {"keepdims", n(0)}}});
    all.push_back({"CumSum", "CumSum", {real({4, 6})}, {{"axis", n(1)}}});
    return all;
}

/// These and the kernels' own cases.
inline std::vector<Case> allShardCases()
{
    std::vector<Case> all;
    for (const auto &family : {shardMatrixCases(), shardLayerCases(), shardShapeCases(), shardElementwiseCases(),
                               shardReductionCases(), allCases(), forwardOnlyCases()})
        all.insert(all.end(), family.begin(), family.end());
    return all;
}

} // namespace planloom::cases
