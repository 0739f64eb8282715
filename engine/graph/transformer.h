// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::graph {

/// One block of a transformer: attention, then the feed-forward network, each with its normalisation and its way
/// around.
struct TransformerBlock {
    OpId first; ///< the normalisation in front of attention, or the first projection
    OpId last;  ///< the addition behind the feed-forward network, or the normalisation behind that
};

/// A stack of equal transformer blocks between a table of tokens and a head over the vocabulary, as other programs
/// describe one: by its sizes.
struct Transformer {
    enum class Positions : std::uint8_t { None, Learned, Rotary };
    enum class Activation : std::uint8_t { Gelu, GeluTanh, Relu, Silu };
    enum class Biases : std::uint8_t { All, None, OnlyQkv }; ///< of the blocks' linear layers

    std::vector<TransformerBlock> blocks;
    std::int64_t hidden = 0;
    std::int64_t feedForward = 0;
    std::int64_t heads = 0;
    std::int64_t kvHeads = 0;
    std::int64_t headSize = 0;
    std::int64_t sequence = 0;     ///< tokens of a sample
    std::int64_t positionRows = 0; ///< of the table of positions; 0: none
    std::int64_t vocabulary = 0;
    Positions positions = Positions::None;
    double rotaryBase = 0;
    Activation activation = Activation::Gelu;
    bool gated = false; ///< two products go up, one through the activation, and are multiplied
    bool causal = true;
    bool rmsNorm = false; ///< else LayerNorm
    double normEpsilon = 0;
    bool postNorm =
        false; ///< normalised behind the ways around (BERT), else in front of attention and feed-forward (GPT)
    Biases biases = Biases::All;
    bool tiedHead = true;       ///< the head reads the table of tokens
    bool headTransform = false; ///< an extra linear layer lies between the last block and the head (BERT)
    bool tokenTypes = false;    ///< a table of token types is added to the tokens
    double hiddenDropout = 0;
    double attentionDropout = 0;
    double initDeviation = 0; ///< of the table of tokens; 0: unknown
    OpId embedding;           ///< the look-up of the tokens
    OpId head;                ///< the product with the vocabulary
};

/// Reads the sizes off the graph's structure; names and scopes do not count. Error (Unsupported): the graph is not such
/// a stack; the message names the mismatch and its place. Cost: O(operators + edges).
Result<Transformer> readTransformer(const Graph &graph);

} // namespace planloom::graph
