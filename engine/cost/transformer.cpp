// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/transformer.h"

#include "engine/graph/layers.h"

#include <algorithm>

namespace planloom::cost {
namespace {

/// Tensors whole on every device, unless sequence parallelism splits it.
double spread(const TransformerLayout &layout) { return layout.sequenceParallel ? layout.tensor : 1; }

} // namespace

LayerActivations TransformerCosts::activations(const TransformerLayout &layout) const
{
    const double elements = rows(layout) * m_shape.hidden;
    const double whole = elements / spread(layout);
    const double part = elements / layout.tensor;
    const double bytes = m_shape.elementBytes;
    if (layout.kept == Kept::Inputs)
        return {bytes * whole, 0, 0};
    const double mask = m_shape.dropout ? whole : 0; // a byte an element
    const double packed = 1 + 2 * m_shape.keyValueHeads / m_shape.heads;
    LayerActivations kept;
    kept.attention = bytes * whole + bytes * (packed + 1) * part + mask; // input, Q, K, V, input of the projection
    if (m_shape.attention == TransformerShape::Attention::Fused)
        kept.attention += 4 * m_shape.heads * rows(layout) / layout.tensor;
    else if (layout.kept == Kept::All)
        kept.attention += scores(layout) * (m_shape.dropout ? 2 * bytes + 1 : bytes);
    const double wide = part * m_shape.feedForward / m_shape.hidden;
    kept.mlp = bytes * whole + (m_shape.gated ? 4 : 2) * bytes * wide
        + mask; // a gate: input, activation, other factor, product
    kept.norms = 2 * bytes * whole;
    return kept;
}

double TransformerCosts::embeddingActivations(const TransformerLayout &layout) const
{
    return m_shape.dropout ? rows(layout) * m_shape.hidden / spread(layout) : 0;
}

double TransformerCosts::headActivations(const TransformerLayout &layout) const
{
    const double whole = rows(layout) * m_shape.hidden / spread(layout);
    return 2 * m_shape.elementBytes * whole + 4 * rows(layout) * m_shape.vocabulary / layout.tensor;
}

double TransformerCosts::inFlight(const TransformerLayout &layout) const
{
    const double deep =
        layout.interleave > 1 ? layout.pipeline + (layout.pipeline - 1) / layout.interleave : layout.pipeline;
    return std::min(layout.microBatches, deep);
}

double TransformerCosts::activationBytes(const TransformerLayout &layout) const
{
    return activations(layout).total() * layersPerDevice(layout) * inFlight(layout);
}

namespace {

/// True if the projection behind attention leads back to the same width: the formulas know one width only.
bool keepsWidth(const graph::Graph &graph, const graph::Op &attention)
{
    const std::int64_t width = graph.tensor(attention.outputs[0]).shape[2].size;
    for (const OpId id : graph.consumers(attention.outputs[0])) {
        const graph::Op &op = graph.op(id);
        if (op.traits().cost == graph::CostClass::Product
            && graph.tensor(op.outputs[0]).shape.dims().back().size != width)
            return false;
    }
    return true;
}

/// True if an activation is multiplied by another product's result.
bool isGate(const graph::Graph &graph, const graph::Op &activation)
{
    const auto readers = graph.consumers(activation.outputs[0]);
    return std::any_of(readers.begin(), readers.end(), [&](OpId id) {
        const graph::Op &op = graph.op(id);
        return op.type == "Mul" && op.inputs[0] != op.inputs[1]
            && graph.tensor(op.inputs[0]).role == graph::TensorRole::Activation
            && graph.tensor(op.inputs[1]).role == graph::TensorRole::Activation;
    });
}

} // namespace

std::optional<TransformerShape> transformerOf(const graph::Graph &graph, double elementBytes)
{
    TransformerShape shape;
    shape.elementBytes = elementBytes;
    std::int64_t width = 0;
    bool gates = false;
    for (const graph::Op &op : graph.ops()) {
        if (op.traits().isAttention()) {
            const graph::Tensor &mixed = graph.tensor(op.outputs[0]);
            const auto heads = static_cast<double>(op.integer("heads"));
            const auto hidden = static_cast<double>(mixed.shape[2].size);
            if (!keepsWidth(graph, op))
                return std::nullopt;
            if (shape.layers > 0 && (shape.heads != heads || shape.hidden != hidden))
                return std::nullopt;
            shape.layers += 1;
            shape.heads = heads;
            shape.keyValueHeads = static_cast<double>(op.integer("kv_heads", op.integer("heads")));
            shape.hidden = hidden;
            shape.sequence = static_cast<double>(mixed.shape[1].size);
            shape.attention = op.traits().cost == graph::CostClass::Attention ? TransformerShape::Attention::Fused
                                                                              : TransformerShape::Attention::Unfused;
        }
        shape.dropout = shape.dropout || op.type == "MaskedDropout";
        if (op.type == "Gelu" || op.type == "Silu" || op.type == "Relu")
            width = std::max(width, graph.tensor(op.outputs[0]).shape.dims().back().size);
        gates = gates || op.type == "Silu" || (op.type == "Gelu" && isGate(graph, op));
        if (op.type == "SoftmaxCrossEntropyLoss" && op.inputs[0].valid())
            shape.vocabulary = static_cast<double>(graph.tensor(op.inputs[0]).shape.dims().back().size);
    }
    if (shape.layers < 1 || width == 0 || shape.vocabulary == 0)
        return std::nullopt;
    shape.feedForward = static_cast<double>(width);
    shape.gated = gates;
    return shape;
}

} // namespace planloom::cost
