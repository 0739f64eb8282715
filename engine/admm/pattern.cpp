// SPDX-License-Identifier: Apache-2.0
#include "engine/admm/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace planloom::admm {
namespace {

using graph::Graph;
using graph::Op;
using graph::Tensor;
using graph::TensorRole;

Error doesNotFit(const Op &op, const std::string &what)
{
    return unsupported(
        fmt::format("operator '{}' ({}) does not fit training by ADMM: {}", op.name, op.type.name(), what));
}

bool givenAt(const Op &op, std::size_t input) { return input < op.inputs.size() && op.inputs[input].valid(); }

/// Moves values to other places without arithmetic on them, all of input 0's.
bool onlyMoves(const Op &op)
{
    static constexpr std::array kTypes{"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"};
    return std::any_of(kTypes.begin(), kTypes.end(), [&op](const char *type) { return op.type == type; });
}

/// The tensor in front of the operators that only move values.
TensorId before(const Graph &graph, TensorId tensor)
{
    while (graph.tensor(tensor).producer.valid() && onlyMoves(graph.op(graph.tensor(tensor).producer)))
        tensor = graph.op(graph.tensor(tensor).producer).inputs[0];
    return tensor;
}

/// Error: @p tensor is made by no operator, or by one of another type.
Result<const Op *> maker(const Graph &graph, TensorId tensor, const char *type, const std::string &expected)
{
    const Tensor &made = graph.tensor(tensor);
    if (!made.producer.valid())
        return unsupported(fmt::format("tensor '{}' does not fit training by ADMM: {}", made.name, expected));
    const Op &op = graph.op(made.producer);
    if (op.type != type)
        return doesNotFit(op, expected);
    return &op;
}

/// True if @p op takes the last of @p steps along axis @p axis.
bool takesLast(const Op &op, std::int64_t axis, std::int64_t steps)
{
    const std::vector<std::int64_t> starts = op.integers("starts");
    const std::vector<std::int64_t> ends = op.integers("ends");
    const std::vector<std::int64_t> axes = op.integers("axes", {0});
    const std::vector<std::int64_t> strides = op.integers("steps", {1});
    return op.type == "Slice" && starts.size() == 1 && ends.size() == 1 && axes == std::vector{axis}
    && strides == std::vector<std::int64_t>{1} && (starts[0] == -1 || starts[0] == steps - 1) && ends[0] >= steps;
}

Status checkRecurrent(const Graph &graph, const Op &op)
{
    if (const std::string direction = op.text("direction", "forward"); direction != "forward")
        return doesNotFit(op, "one direction is expected, forward in time, not " + direction);
    if (const std::string activation = op.text("activations", "Tanh"); activation != "Tanh")
        return doesNotFit(op, "the activation Tanh is expected, not " + activation);
    if (op.number("clip") > 0)
        return doesNotFit(op, "no clipping is expected; leave out 'clip'");
    if (givenAt(op, 4))
        return doesNotFit(op, "sequences of equal length are expected; leave out sequence_lens");
    if (givenAt(op, 5))
        return doesNotFit(op, "an initial state of zeros is expected; leave out initial_h");
    for (const std::size_t weight : {1, 2, 3})
        if (givenAt(op, weight) && graph.tensor(op.inputs[weight]).role != TensorRole::Parameter)
            return doesNotFit(op, "its weights are expected to be parameters");
    return {};
}

Status checkProduct(const Graph &graph, const Op &op)
{
    if (op.number("alpha", 1) != 1 || op.number("beta", 1) != 1 || op.integer("transA") != 0)
        return doesNotFit(op, "alpha and beta of 1 and no transA are expected");
    for (const std::size_t weight : {1, 2})
        if (givenAt(op, weight) && graph.tensor(op.inputs[weight]).role != TensorRole::Parameter)
            return doesNotFit(op, "its weights are expected to be parameters");
    return {};
}

/// The recurrent layer whose last step @p hidden is: its output Y_h, or the last step of Y.
Result<const Op *> recurrentOf(const Graph &graph, TensorId hidden)
{
    const std::string expected = "the last step of an RNN is expected here";
    TensorId tensor = before(graph, hidden);
    const Op *slice = nullptr;
    if (const OpId producer = graph.tensor(tensor).producer; producer.valid() && graph.op(producer).type == "Slice") {
        slice = &graph.op(producer);
        tensor = slice->inputs[0];
    }
    if (const OpId producer = graph.tensor(tensor).producer; producer.valid())
        if (const Op &made = graph.op(producer); made.type == "LSTM" || made.type == "GRU")
            return doesNotFit(made,
                              "its gates differ from sample to sample, so that each would have a system of its own to "
                              "solve; use an RNN with tanh");
    const auto op = maker(graph, tensor, "RNN", expected);
    if (!op)
        return op.error();
    const bool whole = (*op)->outputs[0] == tensor;
    const std::int64_t axis = (*op)->integer("layout") != 0 ? 1 : 0;
    const graph::Dim steps = graph.tensor((*op)->outputs[0]).shape[static_cast<std::size_t>(axis)];
    if (steps.batch)
        return doesNotFit(**op, "a fixed number of steps is expected");
    if (whole && slice == nullptr)
        return doesNotFit(**op, "the last step alone is expected to be used, not all of them");
    if (slice != nullptr && (!whole || !takesLast(*slice, axis, steps.size)))
        return doesNotFit(*slice, expected);
    return op;
}

/// Nothing else is trained, and nothing else is computed from the input.
Status checkRest(const Graph &graph, const Pattern &pattern)
{
    const TensorId source = before(graph, pattern.x);
    if (const Tensor &tensor = graph.tensor(source); tensor.role != TensorRole::Input)
        return tensor.producer.valid()
            ? Status(doesNotFit(graph.op(tensor.producer), "the RNN is expected to read an input"))
            : Status(unsupported(fmt::format("the RNN reads '{}', which is no input", tensor.name)));
    const std::array known{pattern.u, pattern.w, pattern.bias, pattern.v, pattern.c};
    for (const TensorId parameter : graph.withRole(TensorRole::Parameter))
        if (std::find(known.begin(), known.end(), parameter) == known.end())
            return unsupported(
                fmt::format("parameter '{}' does not fit training by ADMM: it is outside of the RNN and the "
                            "Gemm behind it",
                            graph.tensor(parameter).name));
    return {};
}

TensorId orNone(const Op &op, std::size_t input) { return givenAt(op, input) ? op.inputs[input] : TensorId{}; }

} // namespace

Result<Pattern> findPattern(const Graph &graph)
{
    if (!graph.loss().valid())
        return unsupported("training by ADMM needs a model with a loss; choose one with --loss softmax-cross-entropy");
    const auto loss =
        maker(graph, graph.loss(), "SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss is expected as the loss");
    if (!loss)
        return loss.error();
    const auto product =
        maker(graph, before(graph, (*loss)->inputs[0]), "Gemm", "a Gemm is expected in front of the loss");
    if (!product)
        return product.error();
    if (const Status good = checkProduct(graph, **product); !good)
        return good.error();
    const auto recurrent = recurrentOf(graph, (*product)->inputs[0]);
    if (!recurrent)
        return recurrent.error();
    if (const Status good = checkRecurrent(graph, **recurrent); !good)
        return good.error();
    const Op &layer = **recurrent;
    Pattern pattern{layer.id,
                    (*product)->id,
                    (*loss)->id,
                    layer.inputs[0],
                    (*loss)->inputs[1],
                    layer.inputs[1],
                    layer.inputs[2],
                    orNone(layer, 3),
                    (*product)->inputs[1],
                    orNone(**product, 2),
                    (*product)->integer("transB") == 0,
                    layer.integer("layout") != 0};
    const graph::Shape &x = graph.tensor(pattern.x).shape;
    const graph::Shape &v = graph.tensor(pattern.v).shape;
    pattern.inputs = x[2].size;
    pattern.hidden = graph.tensor(pattern.w).shape[2].size;
    pattern.classes = v[pattern.transposed ? 1 : 0].size;
    pattern.steps = x[pattern.batchFirst ? 1 : 0].size;
    if (const Status good = checkRest(graph, pattern); !good)
        return good.error();
    return pattern;
}

} // namespace planloom::admm
