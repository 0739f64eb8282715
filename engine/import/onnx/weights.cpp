// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/weights.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

namespace planloom::import {
namespace {

std::int64_t elementCount(const StoredTensor &tensor)
{
    std::int64_t count = 1;
    for (const std::int64_t dim : tensor.dims)
        count *= dim;
    return count;
}

} // namespace

bool isWeightPosition(const std::string &type, std::size_t input)
{
    static const std::map<std::string, std::set<std::size_t>, std::less<>> positions = {{"Conv", {1, 2}},
                                                                                        {"ConvTranspose", {1, 2}},
                                                                                        {"Gemm", {0, 1, 2}},
                                                                                        {"MatMul", {0, 1}},
                                                                                        {"BatchNormalization", {1, 2}},
                                                                                        {"LayerNormalization", {1, 2}},
                                                                                        {"RMSNormalization", {1}},
                                                                                        {"Gather", {0}},
                                                                                        {"LSTM", {1, 2, 3, 7}},
                                                                                        {"GRU", {1, 2, 3}},
                                                                                        {"RNN", {1, 2, 3}},
                                                                                        {"PRelu", {1}},
                                                                                        {"InstanceNormalization",
                                                                                         {1, 2}}};
    const auto found = positions.find(type);
    return found != positions.end() && found->second.contains(input);
}

bool hasWeightName(const std::string &name)
{
    static const std::vector<std::string> endings = {"weight",       "bias",        "gamma",     "beta", "kernel",
                                                     "running_mean", "running_var", "embedding", "scale"};
    return std::any_of(endings.begin(), endings.end(),
                       [&](const std::string &ending) { return name.ends_with(ending); });
}

bool hasBufferName(const std::string &name)
{
    static const std::vector<std::string> endings = {"cos_cached", "sin_cached", "inv_freq"};
    return std::any_of(endings.begin(), endings.end(),
                       [&](const std::string &ending) { return name.ends_with(ending); });
}

bool looksNamed(const std::string &name, const StoredTensor &tensor)
{
    const bool generated = name.find(':') != std::string::npos || name.find('/') != std::string::npos
        || name.find("__") != std::string::npos
        || std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    return !tensor.dims.empty() && !generated;
}

int batchAxisOf(const onnx::GraphProto &graph, const std::string &input)
{
    for (const auto &node : graph.node()) {
        if (node.op_type() != "LSTM" && node.op_type() != "GRU" && node.op_type() != "RNN")
            continue;
        const bool batchFirst =
            std::any_of(node.attribute().begin(), node.attribute().end(),
                        [](const auto &attribute) { return attribute.name() == "layout" && attribute.i() != 0; });
        for (const int i : {0, 5, 6})
            if (!batchFirst && i < node.input_size() && node.input(i) == input)
                return 1;
    }
    return 0;
}

bool looksLikeWeight(const onnx::GraphProto &graph, const onnx::ValueInfoProto &input)
{
    const auto &tensor = input.type().tensor_type();
    if (tensor.elem_type() != onnx::TensorProto::FLOAT)
        return input.name().ends_with("num_batches_tracked");
    for (const auto &dim : tensor.shape().dim())
        if (!dim.has_dim_value())
            return false;
    if (tensor.shape().dim_size() == 0)
        return false;
    if (hasWeightName(input.name()))
        return true;
    if (input.name() == graph.input(0).name())
        return false;
    for (const auto &node : graph.node())
        for (int i = 0; i < node.input_size(); ++i)
            if (node.input(i) == input.name() && isWeightPosition(node.op_type(), static_cast<std::size_t>(i)))
                return true;
    return false;
}

graph::Initializer initialGuess(const std::string &name, const std::vector<std::int64_t> &dims)
{
    graph::Initializer init;
    const bool vector = dims.size() <= 1;
    if (name.ends_with("running_var")
        || (vector && (name.ends_with("weight") || name.ends_with("gamma") || name.ends_with("scale")))) {
        init.kind = graph::Initializer::Kind::Ones;
        return init;
    }
    if (vector) {
        init.kind = graph::Initializer::Kind::Zeros;
        return init;
    }
    double fanIn = 1;
    for (std::size_t i = 1; i < dims.size(); ++i)
        fanIn *= static_cast<double>(std::max<std::int64_t>(dims[i], 1));
    const bool table = name.find("emb") != std::string::npos || name.find("wte") != std::string::npos
        || name.find("wpe") != std::string::npos;
    init.kind = graph::Initializer::Kind::Normal;
    init.b = table ? 0.02 : std::sqrt((dims.size() > 2 ? 2.0 : 1.0) / fanIn);
    return init;
}

bool isLearnedAddend(const StoredTensor &tensor, const std::string &type)
{
    if (type != "Add" && type != "Mul" && type != "Transpose" && type != "Concat" && type != "Expand")
        return false;
    if (elementCount(tensor) < 2)
        return false;
    const auto known = knownValue(tensor);
    constexpr double kMaskMagnitude = 1e4;
    return !known || std::none_of(known->elements.begin(), known->elements.end(), [](const Number &n) {
        return !(std::abs(n.value) < kMaskMagnitude);
    });
}

bool isRearrangedWeight(const std::string &type, std::size_t input, const KnownValue &value)
{
    const bool recurrent = type == "LSTM" || type == "GRU" || type == "RNN";
    return recurrent && value.type == graph::DType::F32 && isWeightPosition(type, input);
}

bool isMaskHandling(const std::string &name, const std::string &type)
{
    static const std::set<std::string, std::less<>> handling = {"Slice", "Equal",     "Less", "Greater",
                                                                "Cast",  "Unsqueeze", "Not",  "Where"};
    return !hasWeightName(name) && handling.contains(type);
}

} // namespace planloom::import
