// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/transformer.h"

#include "engine/graph/layers.h"

#include <algorithm>

namespace planloom::cost {
namespace {

/// What lies whole on every device, unless sequence parallelism splits it.
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
    kept.mlp = bytes * whole + (m_shape.gated ? 4 : 2) * bytes * wide + mask; // a gate: what it is, its activation, what it multiplies, the product
    kept.norms = 2 * bytes * whole;
    return kept;
}

double TransformerCosts::coreFlops(const TransformerLayout &layout) const { return 4 * rows(layout) * m_shape.sequence * m_shape.hidden / layout.tensor; }

double TransformerCosts::forwardFlops(const TransformerLayout &layout) const { return 2 * rows(layout) * parameters(layout) + coreFlops(layout); }

double TransformerCosts::backwardFlops(const TransformerLayout &layout) const
{
    const double forward = forwardFlops(layout);
    const bool fused = m_shape.attention == TransformerShape::Attention::Fused;
    double again = 0;
    if (layout.kept == Kept::Inputs)
        again = forward;
    else if (layout.kept == Kept::Selective)
        again = coreFlops(layout);
    return 2 * forward + again + (fused ? coreFlops(layout) / 2 : 0); // fused attention forms its scores once more
}

double TransformerCosts::forwardTraffic(const TransformerLayout &layout) const
{
    const double elements = rows(layout) * m_shape.hidden;
    const double whole = elements / spread(layout);
    const double wide = elements / layout.tensor * m_shape.feedForward / m_shape.hidden;
    const double bytes = m_shape.elementBytes;
    double traffic = 2 * 2 * bytes * whole + 2 * 3 * bytes * whole + (m_shape.gated ? 5 : 2) * bytes * wide; // norms, residuals, activation
    if (m_shape.dropout)
        traffic += 2 * (2 * bytes + 1) * whole;
    if (m_shape.attention == TransformerShape::Attention::Unfused)
        traffic += scores(layout) * (2 * bytes + (m_shape.dropout ? 2 * bytes + 1 : 0));
    return traffic;
}

double TransformerCosts::backwardTraffic(const TransformerLayout &layout) const
{
    const double forward = forwardTraffic(layout);
    double again = 0;
    if (layout.kept == Kept::Inputs)
        again = forward;
    else if (layout.kept == Kept::Selective && m_shape.attention == TransformerShape::Attention::Unfused)
        again = scores(layout) * (2 * m_shape.elementBytes + (m_shape.dropout ? 2 * m_shape.elementBytes + 1 : 0));
    return 1.5 * forward + again; // two are read for one that is written
}

double TransformerCosts::exchangedElements(const TransformerLayout &layout) const { return layout.tensor > 1 ? rows(layout) * m_shape.hidden : 0; }

double TransformerCosts::parameters(const TransformerLayout &layout) const
{
    const double square = m_shape.hidden * m_shape.hidden;
    const double attention = square * (2 + 2 * m_shape.keyValueHeads / m_shape.heads);
    const double mlp = (m_shape.gated ? 3 : 2) * m_shape.hidden * m_shape.feedForward;
    return (attention + mlp) / layout.tensor;
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

double TransformerCosts::headFlops(const TransformerLayout &layout) const { return 2 * rows(layout) * m_shape.hidden * m_shape.vocabulary / layout.tensor; }

double TransformerCosts::embeddingParameters(const TransformerLayout &layout) const
{
    return m_shape.vocabulary * m_shape.hidden / layout.tensor * (m_shape.tiedTable ? 1 : 2);
}

double TransformerCosts::inFlight(const TransformerLayout &layout) const
{
    const double deep = layout.interleave > 1 ? layout.pipeline + (layout.pipeline - 1) / layout.interleave : layout.pipeline;
    return std::min(layout.microBatches, deep);
}

double TransformerCosts::activationBytes(const TransformerLayout &layout) const
{
    return activations(layout).total() * layersPerDevice(layout) * inFlight(layout);
}

double TransformerCosts::stateBytes(const TransformerLayout &layout, double bytesPerParameter) const
{
    return parameters(layout) * layersPerDevice(layout) * bytesPerParameter;
}

double TransformerCosts::modelFlops(double globalBatch) const
{
    TransformerLayout whole;
    whole.microBatch = globalBatch;
    return 3 * (m_shape.layers * forwardFlops(whole) + headFlops(whole));
}

std::optional<TransformerShape> transformerOf(const graph::Graph &graph, double elementBytes)
{
    TransformerShape shape;
    shape.elementBytes = elementBytes;
    std::int64_t width = 0;
    bool gates = false;
    for (const graph::Op &op : graph.ops()) {
        if (op.type == "Attention" || op.type == "UnfusedAttention") {
            const graph::Tensor &mixed = graph.tensor(op.outputs[0]);
            const auto heads = static_cast<double>(op.integer("heads"));
            const auto hidden = static_cast<double>(mixed.shape[2].size);
            if (shape.layers > 0 && (shape.heads != heads || shape.hidden != hidden))
                return std::nullopt;
            shape.layers += 1;
            shape.heads = heads;
            shape.keyValueHeads = static_cast<double>(op.integer("kv_heads", op.integer("heads")));
            shape.hidden = hidden;
            shape.sequence = static_cast<double>(mixed.shape[1].size);
            shape.attention = op.type == "Attention" ? TransformerShape::Attention::Fused : TransformerShape::Attention::Unfused;
        }
        shape.dropout = shape.dropout || op.type == "MaskedDropout";
        if (op.type == "Gelu" || op.type == "Silu" || op.type == "Relu")
            width = std::max(width, graph.tensor(op.outputs[0]).shape.dims().back().size);
        gates = gates || op.type == "Silu";
        if (op.type == "SoftmaxCrossEntropyLoss" && op.inputs[0].valid())
            shape.vocabulary = static_cast<double>(graph.tensor(op.inputs[0]).shape.dims().back().size);
    }
    if (shape.layers < 1 || width == 0 || shape.vocabulary == 0)
        return std::nullopt;
    shape.feedForward = static_cast<double>(width);
    shape.gated = gates;
    std::size_t tables = 0;
    for (const graph::Tensor &tensor : graph.tensors())
        tables += tensor.role == graph::TensorRole::Parameter && tensor.shape.rank() == 2 && static_cast<double>(tensor.shape[0].size) == shape.vocabulary &&
                          static_cast<double>(tensor.shape[1].size) == shape.hidden
                      ? 1
                      : 0;
    shape.tiedTable = tables < 2;
    return shape;
}

} // namespace planloom::cost
