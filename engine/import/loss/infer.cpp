// SPDX-License-Identifier: Apache-2.0
#include "engine/import/loss/infer.h"

#include "engine/graph/operators/operators.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace planloom::import {

using graph::DType;
using graph::Graph;
using graph::Op;
using graph::Shape;
using graph::Tensor;
using graph::TensorRole;

namespace {

std::size_t fromFront(std::int64_t axis, std::size_t rank)
{
    return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

bool isConstant(const Graph &graph, TensorId id) { return graph.tensor(id).role == TensorRole::Constant; }

/// Which input an operator passes on with its axes where they are; nothing if it does something else.
std::optional<std::size_t> keptInput(const Graph &graph, const Op &op)
{
    const Shape &shape = graph.tensor(op.outputs[0]).shape;
    const bool resizes = op.type == "MatMul" || op.type == "Gather"; // Resize, as it is read
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (!op.inputs[i].valid() || isConstant(graph, op.inputs[i]))
            continue;
        const Tensor &input = graph.tensor(op.inputs[i]);
        const bool elementWise = op.traits().elementWise != graph::ElementWise::No || op.type == "BatchNormalization"
            || op.type == "Softmax" || op.type == "LogSoftmax";
        const bool others = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId id) {
            return id != op.inputs[i] && id.valid() && !isConstant(graph, id);
        });
        if ((elementWise && input.shape == shape && input.role == TensorRole::Activation)
            || (resizes && !others && input.shape.rank() == shape.rank()))
            return i;
    }
    return {};
}

bool productWithWeight(const Graph &graph, const Op &op)
{
    if (op.type != "MatMul" && op.type != "Gemm")
        return false;
    return graph.tensor(op.inputs[1]).role == TensorRole::Parameter;
}

/// Whether @p shape is that of an image that the model is given.
bool likeAnInput(const Graph &graph, const Shape &shape)
{
    const auto inputs = graph.withRole(TensorRole::Input);
    return std::any_of(inputs.begin(), inputs.end(), [&](TensorId id) {
        return graph.tensor(id).type == DType::F32 && graph.tensor(id).shape == shape;
    });
}

std::string sizeText(const Tensor &output) { return fmt::format("output '{}' {}", output.name, output.shape.text()); }

Ending cannotTell(const std::string &why, const char *choices)
{
    return {std::nullopt, fmt::format("{}; choose --loss {}", why, choices)};
}

Ending classes(const Tensor &output, std::size_t axis, std::string reason)
{
    LossChoice choice;
    choice.kind = &lossKind("cross-entropy");
    choice.output = output.name;
    choice.axis = static_cast<std::int64_t>(axis);
    return {choice, std::move(reason)};
}

/// Images and volumes: logits of classes for each pixel, or pixels.
Ending ofImage(const Graph &graph, const Tensor &output)
{
    const auto axis = classAxis(graph, output.id);
    if (!axis)
        return cannotTell(sizeText(output) + " may hold classes along any axis, or values",
                          "cross-entropy,axis=N, binary-cross-entropy, mse, l1 or huber");
    if (output.shape[*axis].size < 2)
        return cannotTell(sizeText(output) + " has one number for each pixel, a logit or a value",
                          "binary-cross-entropy, mse, l1 or huber");
    if (likeAnInput(graph, output.shape))
        return cannotTell(sizeText(output) + " has the shape of an input: an image, or classes of its pixels",
                          "cross-entropy, mse, l1 or huber");
    return classes(output, *axis, fmt::format("{} classes along axis {}", output.shape[*axis].size, *axis));
}

Ending ofLogits(const Graph &graph, const Tensor &output)
{
    const std::size_t rank = output.shape.rank();
    if (rank > 3)
        return ofImage(graph, output);
    if (rank < 2 || output.shape[rank - 1].size < 2)
        return cannotTell(sizeText(output) + " has one number for each result, a logit or a value",
                          "binary-cross-entropy, mse, l1 or huber");
    const std::size_t axis = classAxis(graph, output.id).value_or(rank - 1);
    if (rank == 3 && axis == 1)
        return ofImage(graph, output);
    return classes(output, axis, fmt::format("{} classes", output.shape[axis].size));
}

/// Values between bounds are no logits.
bool isBounded(const std::string &type)
{
    constexpr std::array kTypes{"Tanh", "Relu", "Softplus", "Abs", "Exp", "HardSigmoid", "Clip"};
    return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

Ending ofHead(const Graph &graph, const Tensor &output)
{
    const Op &head = graph.op(output.producer);
    if (head.type == "Softmax" || head.type == "LogSoftmax") {
        const std::size_t axis = fromFront(head.integer("axis", -1), output.shape.rank());
        return classes(output, axis, fmt::format("it ends in {} over axis {}", head.type.name(), axis));
    }
    if (head.type == "Sigmoid") {
        LossChoice choice;
        choice.kind = &lossKind("binary-cross-entropy");
        choice.output = output.name;
        return {choice, "it ends in Sigmoid"};
    }
    if (isBounded(head.type))
        return cannotTell(fmt::format("output '{}' ends in {}, whose values are no logits", output.name,
                                      head.type.name()),
                          "mse, l1 or huber");
    return ofLogits(graph, output);
}

bool hasLabels(const Graph &graph)
{
    const auto inputs = graph.withRole(TensorRole::Input);
    return std::any_of(inputs.begin(), inputs.end(), [&](TensorId id) { return graph.tensor(id).name == "labels"; });
}

/// Where axis @p axis lies after Transposes, the last one first.
std::optional<std::size_t> exchanged(std::size_t axis, const std::vector<const Op *> &exchanges)
{
    for (auto op = exchanges.rbegin(); op != exchanges.rend(); ++op) {
        const std::vector<std::int64_t> order = (*op)->integers("perm");
        const auto at = std::find(order.begin(), order.end(), static_cast<std::int64_t>(axis));
        if (at == order.end())
            return {};
        axis = static_cast<std::size_t>(at - order.begin());
    }
    return axis;
}

} // namespace

const Op *madeBy(const Graph &graph, TensorId id, std::string_view type)
{
    const OpId producer = graph.tensor(id).producer;
    return producer.valid() && graph.op(producer).type == type ? &graph.op(producer) : nullptr;
}

std::vector<TensorId> floatOutputs(const Graph &graph)
{
    std::vector<TensorId> found;
    for (const TensorId id : graph.outputs())
        if (graph.tensor(id).type == DType::F32 && graph.tensor(id).producer.valid())
            found.push_back(id);
    return found;
}

std::optional<std::size_t> classAxis(const Graph &graph, TensorId logits)
{
    std::vector<const Op *> exchanges; // between the operator that knows the axis and the logits
    for (OpId at = graph.tensor(logits).producer; at.valid(); at = graph.tensor(logits).producer) {
        const Op &op = graph.op(at);
        if (op.type == "Conv" || op.type == "ConvTranspose")
            return exchanged(1, exchanges);
        if (productWithWeight(graph, op))
            return exchanged(graph.tensor(logits).shape.rank() - 1, exchanges);
        if (op.type == "Transpose")
            exchanges.push_back(&op);
        const auto input = op.type == "Transpose" ? std::optional<std::size_t>(0) : keptInput(graph, op);
        if (!input)
            return {};
        logits = op.inputs[*input];
    }
    return {};
}

Ending endingOf(const Graph &graph)
{
    const std::vector<TensorId> outputs = floatOutputs(graph);
    if (outputs.empty())
        return {std::nullopt, "no output holds floats"};
    const auto scalar =
        std::find_if(outputs.begin(), outputs.end(), [&](TensorId id) { return graph.tensor(id).shape.rank() == 0; });
    if (scalar != outputs.end()) {
        LossChoice choice;
        choice.kind = &lossKind("own");
        choice.output = graph.tensor(*scalar).name;
        return {choice, {}};
    }
    const Tensor &output = graph.tensor(outputs.front());
    if (hasLabels(graph))
        return cannotTell("it has an input 'labels', but no output is a scalar, its loss", lossNames().c_str());
    if (!output.shape.batchLeading())
        return {std::nullopt,
                fmt::format("{} does not have the samples along its first axis alone; export it so", sizeText(output))};
    return ofHead(graph, output);
}

} // namespace planloom::import
