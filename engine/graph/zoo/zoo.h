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
        Layer,               ///< LayerNorm (StableLM)
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
    /// One for each pair of a head's elements that turns, headSize / 2 at most: elements behind these pairs stay.
    /// Empty: ropeTheta^(-2i / headSize), all turn.
    std::vector<double> inverseFrequencies{};
    std::vector<bool> localLayers{}; ///< layers with localTheta and without inverseFrequencies; empty: none
    double localTheta = 10000;
    Norm norm = Norm::Rms;
    Normed normed = Normed::Before;
    bool parallel = false; ///< the feed-forward network reads what attention reads, and no normalisation of its own
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
    /// Greater than 0: scores, or logits, s become cap * tanh(s / cap) (Gemma 2). Attention is then built of single
    /// operators, which keep all scores.
    double scoreCap = 0;
    double logitCap = 0;
};

/// A decoder of an older kind: LayerNorm, feed-forward networks of two layers that are not gated, learned or rotary
/// positions. Parameters are PREFIX + name + ".weight" or ".bias".
struct ClassicDecoderConfig {
    /// How query, key and value are stored.
    enum class Projections : std::uint8_t {
        Apart,
        Packed,  ///< one matrix, all query heads first (Falcon 7B)
        Grouped, ///< one matrix, a key head's queries, key and value one behind the other (GPT-NeoX, Falcon 40B)
    };
    /// What the feed-forward network reads.
    enum class Block : std::uint8_t {
        Sequential,       ///< the residual stream behind attention, normalised
        ParallelOwnNorm,  ///< what attention reads, normalised anew (GPT-NeoX)
        ParallelSameNorm, ///< what attention reads, normalised as for it (Phi)
        NormBehind,       ///< sequential, normalised behind the additions (OPT 350M)
    };
    struct Names {
        std::string tokens{};                           ///< the table of tokens
        std::string positions{};                        ///< the table of positions
        std::string layers{};                           ///< what stands in front of a layer's number
        std::string attentionNorm{}, feedForwardNorm{}; ///< within a layer, as all that follow
        std::string query{}, key{}, value{};            ///< Apart
        std::string packed{};                           ///< Packed, Grouped
        std::string output{};                           ///< behind attention
        std::string up{}, down{};                       ///< of the feed-forward network
        std::string norm{};                             ///< of the whole, behind the last layer; empty: none
        std::string projectIn{}, projectOut{};          ///< tokenWidth
        std::string head = "lm_head";                   ///< unless tied
    };
    TransformerConfig sizes; ///< layers to initDeviation, positions; activation and epsilon must be set
    Names names;
    std::int64_t kvHeads = 1;
    Projections projections = Projections::Apart;
    Block block = Block::Sequential;
    double ropeTheta = 0;                     ///< greater than 0: rotary positions
    std::vector<double> inverseFrequencies{}; ///< as DecoderConfig has them
    std::int64_t firstPosition = 0;           ///< row of the first token in the table of sizes.positions rows (0: none)
    std::int64_t tokenWidth = 0; ///< of the table of tokens, projected to the width and back; 0: as wide as the model
    bool qkvBias = true;
    bool outputBias = true; ///< of the projection behind attention
    bool mlpBias = true;
    bool headBias = false;
};

/// An encoder and a decoder that attends to it (Raffel et al., Exploring the Limits of Transfer Learning with a Unified
/// Text-to-Text Transformer, 2020): RMSNorm, no biases, scores with a learned bias for each bucket of distances.
struct T5Config {
    TransformerConfig sizes; ///< layers (of the encoder) to tiedEmbeddings; activation and epsilon must be set
    std::int64_t decoderLayers = 6;
    std::int64_t headSize = 64;
    bool gated = false;             ///< feed-forward networks, as T5 1.1 has them
    std::int64_t buckets = 32;      ///< of distances
    std::int64_t maxDistance = 128; ///< the last bucket has it and all that are farther
    double initFactor = 1;          ///< of the standard deviations of first values
};

/// A classifier of images by a transformer (Dosovitskiy et al., An Image is Worth 16x16 Words, 2021).
struct VisionTransformerConfig {
    TransformerConfig sizes; ///< layers to feedForward, initDeviation; activation and epsilon must be set
    std::int64_t imageSize = 224;
    std::int64_t patchSize = 16; ///< pixels behind the last whole patch of a row or column are not read
    std::int64_t channels = 3;
    std::int64_t classes = 1000;
    bool qkvBias = true;
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
/// GPT-NeoX, Phi, OPT, Falcon, StarCoder 2 and others like them. Inputs as gpt().
Result<Graph> classicDecoder(const ClassicDecoderConfig &config);
/// ViT, with Hugging Face's names of ViTForImageClassification: a learned token in front of the patches, whose vector
/// behind the last layer is classified. Inputs "x" (N, channels, size, size) and "labels" (N) int64.
Result<Graph> visionTransformer(const VisionTransformerConfig &config);
/// T5, with Hugging Face's names of T5ForConditionalGeneration. Inputs "tokens" (of the encoder), "labels" and
/// "decoder_tokens" (the labels one further back), all (N, T) int64. Attention is built of single operators, which keep
/// all scores.
Result<Graph> t5(const T5Config &config);
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
