// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <optional>

/// What training a transformer takes, in closed form: activations kept by part, model state, operations and traffic, for any degree of tensor and
/// sequence parallelism, recompute mode and pipeline (Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
/// arXiv 2205.05198, Table 2 and equations 1 to 8; interleaving after Narayanan et al., arXiv 2104.04473). All of it costs O(1). The simulator
/// works on the model's operators and does not use these formulas; tst_transformer holds the two against each other.
namespace planloom::cost {

struct TransformerShape {
    enum class Attention {
        Fused,   ///< keeps Q, K, V, its result and a statistic a row (FlashAttention, arXiv 2205.14135)
        Unfused, ///< keeps the probabilities, and with dropout their mask and what is left of them
    };
    double layers = 0;
    double heads = 0;
    double keyValueHeads = 0; ///< as many as heads, unless queries share them
    double hidden = 0;
    double feedForward = 0;
    bool gated = false;       ///< the MLP has a gate (LLaMA): three matrices instead of two
    double sequence = 0;
    double vocabulary = 0;
    bool tiedTable = true;
    Attention attention = Attention::Fused;
    bool dropout = false;     ///< masks of a byte an element are kept
    double elementBytes = 2;  ///< of activations
};

/// The shape of @p graph, if it is a chain of equal blocks with attention as zoo models and recognised files have them; else none.
std::optional<TransformerShape> transformerOf(const graph::Graph &graph, double elementBytes = 2);

enum class Kept {
    All,
    Selective, ///< all but what is quadratic in the tokens
    Inputs,    ///< the layers' inputs: "full recompute"
};

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

class TransformerCosts {
public:
    explicit TransformerCosts(const TransformerShape &shape) : m_shape(shape) {}
    [[nodiscard]] const TransformerShape &shape() const { return m_shape; }

    // --- one layer, one micro-batch, one device

    [[nodiscard]] LayerActivations activations(const TransformerLayout &layout) const; ///< Table 2
    /// Multiplications and additions of the forward pass, attention counted without what a causal mask saves (section 4's convention).
    [[nodiscard]] double forwardFlops(const TransformerLayout &layout) const;
    [[nodiscard]] double backwardFlops(const TransformerLayout &layout) const; ///< with what runs again
    /// Bytes through memory besides those of products: norms, activations, residuals, and of unfused attention softmax and dropout.
    [[nodiscard]] double forwardTraffic(const TransformerLayout &layout) const;
    [[nodiscard]] double backwardTraffic(const TransformerLayout &layout) const;
    /// Elements that a collective of tensor parallelism is about; two in forward, two in backward, each an all-reduce or, with sequence
    /// parallelism, a reduce-scatter and an all-gather.
    [[nodiscard]] double exchangedElements(const TransformerLayout &layout) const;
    [[nodiscard]] double parameters(const TransformerLayout &layout) const;

    // --- the ends of the model

    /// Mask of the embeddings' dropout and, of a token table whose layer norm follows elsewhere, nothing else.
    [[nodiscard]] double embeddingActivations(const TransformerLayout &layout) const;
    /// Input of the last norm, input of the head, and logits in float32 (section 4.3). They are kept for the micro-batch at hand only.
    [[nodiscard]] double headActivations(const TransformerLayout &layout) const;
    [[nodiscard]] double headFlops(const TransformerLayout &layout) const; ///< forward
    [[nodiscard]] double embeddingParameters(const TransformerLayout &layout) const;

    // --- a device of the first stage

    /// Micro-batches whose activations lie there at once, in units of all of the device's layers: min(m, p) without interleaving, p + (p-1)/v with.
    [[nodiscard]] double inFlight(const TransformerLayout &layout) const;
    [[nodiscard]] double layersPerDevice(const TransformerLayout &layout) const { return m_shape.layers / layout.pipeline; }
    /// Activations of the layers (equations 2 to 6, times what is in flight).
    [[nodiscard]] double activationBytes(const TransformerLayout &layout) const;
    /// Parameters, gradients and optimizer state of the layers: with float32 masters and sums, two moments and a 16 bit copy 18 bytes each; 16 where
    /// gradients are summed in 16 bits.
    [[nodiscard]] double stateBytes(const TransformerLayout &layout, double bytesPerParameter = 18) const;

    // --- an iteration

    [[nodiscard]] double modelFlops(double globalBatch) const; ///< equation 7's model FLOPs: 72 B L s h^2 (1 + s/6h + v/12hL) for the shape it is stated for

private:
    [[nodiscard]] double rows(const TransformerLayout &layout) const { return m_shape.sequence * layout.microBatch; }
    [[nodiscard]] double scores(const TransformerLayout &layout) const { return m_shape.heads * m_shape.sequence * m_shape.sequence * layout.microBatch / layout.tensor; }
    [[nodiscard]] double coreFlops(const TransformerLayout &layout) const;
    TransformerShape m_shape;
};

} // namespace planloom::cost
