// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <optional>
#include <string>
#include <vector>

namespace planloom::graph {

/// Normal numbers around 0.
inline Initializer normal(double deviation) { return {Initializer::Kind::Normal, 0, deviation, nullptr, {}, 0}; }

/// Of the feed-forward network.
enum class Activation : std::uint8_t { Gelu, GeluTanh, Relu, Silu };

/// The sizes and variants of a transformer of the zoo.
struct TransformerConfig {
    std::string name = "gpt";
    std::int64_t layers = 12;
    std::int64_t heads = 12;
    std::int64_t hidden = 768;
    std::int64_t feedForward = 3072;
    std::int64_t vocabulary = 50257;
    std::int64_t context = 1024; ///< tokens per sample
    bool tiedEmbeddings = true;  ///< the head shares the token table
    double initDeviation = 0.02;
    /// gpt() only. Greater than 0: attention in pieces and dropout with masks, embeddings, attention and both results
    /// of a block (Megatron-LM in 2022). Such a model is planned and simulated, not trained.
    double unfusedDropout = 0;
    std::int64_t positions = 0;             ///< gpt() and bert(): rows of the table of positions; 0: as many as tokens
    std::int64_t tokenTypes = 2;            ///< bert(): rows of the table of token types
    std::optional<Activation> activation{}; ///< unset: tanh GELU in gpt(), GELU in bert()
    std::optional<double> epsilon{};        ///< of normalisations; unset: 1e-5 in gpt(), 1e-12 in bert()
};

/// A decoder of LLaMA's kind: rotary positions, gated feed-forward networks, normalisation in front of both halves of a
/// block. What is set here is what its descendants change.
struct DecoderConfig {
    enum class Norm : std::uint8_t {
        Rms,
        RmsPlusOne,          ///< multiplied by 1 + weight (Gemma)
        LayerWithoutWeights, ///< LayerNorm without scale and shift (OLMo)
    };
    /// Where attention and the feed-forward network are normalised.
    enum class Normed : std::uint8_t {
        Before,
        Behind, ///< in front of the residual addition (OLMo 2)
        Around, ///< both (Gemma 3)
    };
    /// Normalisation of query and key in front of the rotation.
    enum class QueryNorm : std::uint8_t {
        None,
        EachHead, ///< Qwen 3, Gemma 3
        Whole,    ///< all heads as one vector (OLMo 2)
    };
    TransformerConfig sizes; ///< layers to initDeviation; the rest is unused
    std::int64_t kvHeads = 1;
    std::int64_t headSize = 0; ///< 0: hidden / heads
    double ropeTheta = 10000;
    std::vector<double> inverseFrequencies{}; ///< headSize / 2 of them; empty: ropeTheta^(-2i / headSize)
    std::vector<bool> localLayers{};          ///< layers with localTheta and without inverseFrequencies; empty: none
    double localTheta = 10000;
    Norm norm = Norm::Rms;
    Normed normed = Normed::Before;
    QueryNorm queryNorm = QueryNorm::None;
    double epsilon = 1e-6;
    Activation activation = Activation::Silu;
    bool qkvBias = false;
    bool outputBias = false;       ///< of the projection behind attention
    bool mlpBias = false;          ///< of the feed-forward network
    bool fusedProjections = false; ///< stored as qkv_proj and gate_up_proj (Phi-3)
    double embeddingScale = 1;     ///< Gemma, Granite
    double residualScale = 1;      ///< both results of a block are multiplied by it (Granite)
    double logitScale = 1;         ///< Granite
    double attentionScale = 0;     ///< of the scores; 0: 1 / sqrt(headSize)
};

/// A language model of LSTM layers: embedding, layers, a linear head over the vocabulary. Each sample starts from zero
/// states.
struct LstmConfig {
    std::string name = "lstm-lm";
    std::int64_t layers = 2;
    std::int64_t embedding = 650;
    std::int64_t hidden = 650;
    std::int64_t vocabulary = 10000;
    std::int64_t context = 35;   ///< tokens per sample
    bool tiedEmbeddings = false; ///< the head shares the token table
};

/// A classifier of sequences: one layer with tanh, the last step's state into a linear head. What training by ADMM is
/// written for.
struct RnnConfig {
    std::string name = "rnn";
    std::int64_t inputs = 8;
    std::int64_t hidden = 32;
    std::int64_t classes = 10;
    std::int64_t steps = 8;
};

/// Node classification on sampled neighbourhoods.
struct GraphSageConfig {
    std::string name = "graphsage";
    std::int64_t features = 64;
    std::int64_t hidden = 64;
    std::int64_t classes = 10;
    std::int64_t firstFanout = 10; ///< neighbours of a seed node
    std::int64_t secondFanout = 5; ///< neighbours of each of them
};

// Parameters have the names and layouts of the reference implementations (Hugging Face transformers, torchvision), so
// that their weights can be loaded. Errors: BadInput for sizes that are not positive or do not divide. Dropout is left
// out everywhere.

/// GPT-2 (pre-norm, learned positions, tanh GELU), inputs "tokens" and "labels" (N, T) int64, scalar loss.
Result<Graph> gpt(const TransformerConfig &config);
/// BERT encoder with masked-token loss (labels -100 where not predicted): BertForMaskedLM, without pooler and padding
/// mask; all tokens are of type 0. Inputs as gpt().
Result<Graph> bert(const TransformerConfig &config);
/// LLaMA and its descendants, with Hugging Face's names of LLaMA. Inputs as gpt().
Result<Graph> decoder(const DecoderConfig &config);
/// decoder() as LLaMA is (RMSNorm, rotary positions, SwiGLU; grouped-query attention if kvHeads < heads).
Result<Graph> llama(const TransformerConfig &config, std::int64_t kvHeads, double ropeTheta, double epsilon);
/// Inputs "tokens" and "labels" (N, T) int64, scalar loss. Parameters embedding.weight, lstm.I.W, lstm.I.R, lstm.I.B
/// (ONNX's layout, gates in the order input, output, forget, cell), head.weight, head.bias.
Result<Graph> lstmLanguageModel(const LstmConfig &config);
/// Errors: BadInput, sizes below 1.
Result<Graph> rnnClassifier(const RnnConfig &config);
/// Multi-layer perceptron: inputs "x" (N, sizes[0]) and "labels" (N), ReLU between, softmax cross-entropy.
/// The layers are "layers/0" ...; the last one holds the loss.
Result<Graph> mlp(const std::string &name, const std::vector<std::int64_t> &sizes);
/// GraphSAGE with means (Hamilton, Ying and Leskovec, 2017, §3) on two-hop trees of fixed shape: inputs "x"
/// (N, features) of the seed nodes, "x1" (N, first, features) and "x2" (N, first, second, features) of the neighbours
/// that were drawn, "labels" (N) int64, softmax cross-entropy. Parameters layers.I.weight (2 * in, out) and
/// layers.I.bias; the first layer's are used for the seeds and for their neighbours.
Result<Graph> graphSage(const GraphSageConfig &config);
/// The same network in block form: inputs "x" (N * (1 + first + first * second), features), the rows of a mini-batch,
/// each once, zeros behind; for layer L = 0, 1 the rows "ownL" of its targets and lists of the rows that a target takes
/// the mean of ("offsetsL", "indicesL", see SpMM), all int64. Targets of layer 0 are a sample's node and its
/// neighbours, sample by sample; those of layer 1 the samples. Parameters, and losses to rounding, are those of
/// graphSage().
Result<Graph> graphSageBlocks(const GraphSageConfig &config);
/// graphSageBlocks() on whole neighbourhoods: the entries have factors ("weightsL") that make their sum the mean over
/// all neighbours where these are at most the fan-out, and over draws where they are more.
Result<Graph> graphSageWhole(const GraphSageConfig &config);
/// A graph convolution network (Kipf and Welling, 2017) in block form: inputs as graphSageBlocks() without "ownL", as a
/// target is an entry of its own list, and with "weightsL", the entries' factors. H' = relu((A H) W + b), where A has
/// 1 / sqrt((d_i + 1) (d_j + 1)). Parameters layers.I.weight (in, out) and layers.I.bias.
Result<Graph> gcn(const GraphSageConfig &config);
/// Inputs "x" (N, 3, 224, 224) and "labels" (N). VGG-19's 25 layers are named as in the published profile of DAPPLE
/// (Conv2d_1_1 ... MaxPool2d_5, FC1, FC2, Prediction, Loss); those of ResNets (v1.5: the 3x3 convolution strides) are
/// stem, layer1/0 ... layer4/2, head.
Result<Graph> vgg19();
Result<Graph> resnet50();
Result<Graph> resnet101();

} // namespace planloom::graph
