// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <optional>

/// Activations that training a transformer keeps, in closed form and by part, for any degree of tensor and sequence
/// parallelism, recompute mode and pipeline (Korthikanti et al., "Reducing Activation Recomputation in Large
/// Transformer Models", arXiv 2205.05198, Table 2 and equations 1 to 6; interleaving after Narayanan et al., arXiv
/// 2104.04473). All of it costs O(1). `planloom inspect` shows them; the simulator works on the model's operators.
namespace planloom::cost {

/// The sizes of a transformer that its formulas read.
struct TransformerShape {
    enum class Attention {
        Fused,   ///< keeps Q, K, V, its result and a statistic a row (FlashAttention, arXiv 2205.14135)
        Unfused, ///< keeps the probabilities, and with dropout their mask and result
    };
    double layers = 0;
    double heads = 0;
    double keyValueHeads = 0; ///< as many as heads, unless queries share them
    double hidden = 0;
    double feedForward = 0;
    bool gated = false; ///< the MLP has a gate (LLaMA): three matrices instead of two
    double sequence = 0;
    double vocabulary = 0;
    Attention attention = Attention::Fused;
    bool dropout = false;    ///< masks of a byte an element are kept
    double elementBytes = 2; ///< of activations
};

/// The shape of @p graph, if it is a chain of equal blocks with attention as zoo models and recognised files have them;
/// else none.
std::optional<TransformerShape> transformerOf(const graph::Graph &graph, double elementBytes = 2);

/// What a layer keeps for its backward pass.
enum class Kept {
    All,
    Selective, ///< all but tensors quadratic in the tokens
    Inputs,    ///< the layers' inputs: "full recompute"
};

/// How a transformer is spread over devices.
struct TransformerLayout {
    double tensor = 1;
    bool sequenceParallel = false;
    double pipeline = 1;
    double interleave = 1;   ///< runs of layers per device
    double microBatch = 1;   ///< samples
    double microBatches = 1; ///< per iteration
    Kept kept = Kept::All;
};

/// Bytes of one micro-batch on one device.
struct LayerActivations {
    double attention = 0;
    double mlp = 0;
    double norms = 0;
    [[nodiscard]] double total() const { return attention + mlp + norms; }
};

/// Memory of a transformer by closed formulas (Korthikanti et al., 2022, arXiv 2205.05198).
class TransformerCosts {
public:
    explicit TransformerCosts(const TransformerShape &shape) : m_shape(shape) {}
    [[nodiscard]] const TransformerShape &shape() const { return m_shape; }

    // --- one layer, one micro-batch, one device

    [[nodiscard]] LayerActivations activations(const TransformerLayout &layout) const; ///< Table 2

    // --- the ends of the model

    /// Mask of the embeddings' dropout and, of a token table whose layer norm follows elsewhere, nothing else.
    [[nodiscard]] double embeddingActivations(const TransformerLayout &layout) const;
    /// Input of the last norm, input of the head, and logits in float32 (section 4.3). They are kept for the
    /// micro-batch at hand only.
    [[nodiscard]] double headActivations(const TransformerLayout &layout) const;

    // --- a device of the first stage

    /// Micro-batches whose activations lie there at once, in units of all of the device's layers: min(m, p) without
    /// interleaving, p + (p-1)/v with.
    [[nodiscard]] double inFlight(const TransformerLayout &layout) const;
    [[nodiscard]] double layersPerDevice(const TransformerLayout &layout) const
    {
        return m_shape.layers / layout.pipeline;
    }
    /// Activations of the layers (equations 2 to 6, times the micro-batches in flight).
    [[nodiscard]] double activationBytes(const TransformerLayout &layout) const;

private:
    [[nodiscard]] double rows(const TransformerLayout &layout) const { return m_shape.sequence * layout.microBatch; }
    [[nodiscard]] double scores(const TransformerLayout &layout) const
    {
        return m_shape.heads * m_shape.sequence * m_shape.sequence * layout.microBatch / layout.tensor;
    }
    TransformerShape m_shape;
};

} // namespace planloom::cost
