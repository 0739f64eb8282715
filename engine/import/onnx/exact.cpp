// SPDX-License-Identifier: Apache-2.0
#include "engine/import/onnx/exact.h"

#include "engine/import/onnx/claimed_operators.h"
#include "engine/import/onnx/parse.h"
#include "engine/import/onnx/tensor.h"

#include <algorithm>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <set>

namespace planloom::import {
namespace {

std::string lower(std::string text)
{
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

/// The name of a type that we have not; empty if we have it.
std::string strangeType(const onnx::TypeProto &type)
{
    if (type.has_sequence_type())
        return "sequence";
    if (type.has_optional_type())
        return "optional";
    if (!type.has_tensor_type())
        return "map";
    const int element = type.tensor_type().elem_type();
    graph::DType known{};
    if (dataType(element, known))
        return {};
    return onnx::TensorProto::DataType_IsValid(element)
        ? lower(onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(element)))
        : "unknown";
}

void addNodes(const onnx::GraphProto &graph, std::set<std::string> &operators, std::set<std::string> &constants)
{
    for (const auto &node : graph.node()) {
        const bool own = node.domain().empty() || node.domain() == "ai.onnx";
        operators.insert(own ? node.op_type() : node.domain() + "::" + node.op_type());
        for (const auto &attribute : node.attribute())
            if (attribute.has_g())
                addNodes(attribute.g(), operators, constants);
        const ClaimedOperator *claim = own ? findClaim(node.op_type()) : nullptr;
        for (int i = 0; claim && i < node.input_size(); ++i)
            if (wantsConstant(*claim, static_cast<std::size_t>(i)))
                constants.insert(node.input(i));
    }
}

} // namespace

Result<std::unique_ptr<onnx::ModelProto>> parseOnnx(std::string_view bytes)
{
    if (bytes.size() > INT32_MAX)
        return badInput("is larger than 2 GiB, more than the ONNX format allows; store the weights as external data");
    auto model = std::make_unique<onnx::ModelProto>();
    google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
    google::protobuf::io::CodedInputStream coded(&stream);
    coded.SetTotalBytesLimit(INT32_MAX);
    if (!model->ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
        return badInput("is not a whole ONNX file: it is damaged or cut short; copy or export it again");
    if (!model->has_graph())
        return badInput("holds no graph; it is empty or not an ONNX model");
    return model;
}

graph::Initializer dataInitializer(const TensorFile &tensor)
{
    graph::Initializer init;
    init.kind = graph::Initializer::Kind::Data;
    init.data = std::make_shared<const std::vector<std::byte>>(tensor.data);
    return init;
}

Result<TensorFile> readTensorFile(std::string_view bytes, const std::string &name)
{
    onnx::TensorProto proto;
    if (bytes.size() > INT32_MAX || !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        return badInput("is not a whole ONNX tensor: it is damaged or cut short; copy it again").in(name);
    if (proto.data_location() == onnx::TensorProto::EXTERNAL)
        return unsupported("keeps its elements in another file; store them inside").in(name);
    if (proto.data_type() == onnx::TensorProto::UINT16) // how the backend tests keep bfloat16
        proto.set_data_type(onnx::TensorProto::BFLOAT16);
    auto stored = readTensor(proto, {}, Floats::AsStored);
    if (!stored)
        return stored.error().in(name);
    return TensorFile{proto.name(), stored->type, stored->dims, *stored->init.data};
}

Result<OnnxOutline> outlineOf(std::string_view bytes)
{
    const auto model = parseOnnx(bytes);
    if (!model)
        return model.error();
    const onnx::GraphProto &graph = (*model)->graph();
    OnnxOutline outline;
    for (const auto &import : (*model)->opset_import())
        if (import.domain().empty() || import.domain() == "ai.onnx")
            outline.opset = import.version();
    std::set<std::string> stored, operators, constants;
    for (const auto &initializer : graph.initializer())
        stored.insert(initializer.name());
    addNodes(graph, operators, constants);
    for (const auto &input : graph.input()) {
        if (stored.contains(input.name()))
            continue;
        outline.inputs.push_back(input.name());
        if (constants.contains(input.name()))
            outline.constants.push_back(input.name());
        if (outline.strangeType.empty())
            outline.strangeType = strangeType(input.type());
    }
    for (const auto &output : graph.output()) {
        outline.outputs.push_back(output.name());
        if (outline.strangeType.empty())
            outline.strangeType = strangeType(output.type());
    }
    outline.operators.assign(operators.begin(), operators.end());
    return outline;
}

} // namespace planloom::import
