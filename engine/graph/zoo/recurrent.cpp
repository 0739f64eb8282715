// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/zoo/zoo.h"

#include <cmath>

namespace planloom::graph {
namespace {

Status check(const LstmConfig &config)
{
    constexpr std::int64_t kMost = 1 << 20;
    for (const std::int64_t size : {config.layers, config.embedding, config.hidden, config.vocabulary, config.context})
        if (size < 1 || size > kMost)
            return badInput("model '" + config.name + "': layers, sizes, vocabulary and context must lie between 1 and "
                            + std::to_string(kMost));
    if (config.layers > 1000)
        return badInput("model '" + config.name + "': more than 1000 layers");
    if (config.tiedEmbeddings && config.embedding != config.hidden)
        return badInput("model '" + config.name + "': a tied head needs an embedding as wide as the hidden state, "
                        + std::to_string(config.hidden));
    return {};
}

Initializer uniform(double bound) { return {Initializer::Kind::Uniform, -bound, bound, nullptr, {}, 0}; }

/// One layer, samples first: [N, T, in] -> [N, T, hidden].
TensorId layer(GraphBuilder &b, const LstmConfig &config, std::int64_t index, TensorId x)
{
    const std::string prefix = "lstm." + std::to_string(index);
    const std::int64_t in = index == 0 ? config.embedding : config.hidden;
    const std::int64_t width = 4 * config.hidden;
    const Initializer init = uniform(1.0 / std::sqrt(static_cast<double>(config.hidden)));
    b.pushScope("lstm/" + std::to_string(index));
    const TensorId y = b.add("LSTM",
                             {x, b.parameter(prefix + ".W", Shape::of({1, width, in}), init),
                              b.parameter(prefix + ".R", Shape::of({1, width, config.hidden}), init),
                              b.parameter(prefix + ".B", Shape::of({1, 2 * width}), init)},
                             {{"hidden_size", config.hidden}, {"layout", std::int64_t{1}}}, "lstm");
    const TensorId rows = b.add("Squeeze", {y}, {{"axes", std::vector<std::int64_t>{2}}}, "output");
    b.popScope();
    return rows;
}

} // namespace

Result<Graph> lstmLanguageModel(const LstmConfig &config)
{
    if (const Status fits = check(config); !fits)
        return fits.error();
    using Sizes = std::vector<std::int64_t>;
    GraphBuilder b(config.name);
    const TensorId tokens = b.input("tokens", DType::I64, Shape::batched({config.context}));
    const TensorId labels = b.input("labels", DType::I64, Shape::batched({config.context}));
    constexpr double kEmbeddingBound = 0.1;
    const TensorId table =
        b.parameter("embedding.weight", Shape::of({config.vocabulary, config.embedding}), uniform(kEmbeddingBound));
    b.pushScope("embedding");
    TensorId x = b.add("Gather", {table, tokens}, {}, "embedding");
    b.popScope();
    for (std::int64_t i = 0; i < config.layers; ++i)
        x = layer(b, config, i, x);
    b.pushScope("head");
    const TensorId weight = config.tiedEmbeddings
        ? table
        : b.parameter("head.weight", Shape::of({config.vocabulary, config.hidden}), uniform(kEmbeddingBound));
    const TensorId bias =
        b.parameter("head.bias", Shape::of({config.vocabulary}), {Initializer::Kind::Zeros, 0, 0, nullptr, {}, 0});
    const TensorId rows =
        b.add("Reshape", {x}, {{"shape", Sizes{config.context, config.hidden}}, {"batch_axis", std::int64_t{0}}},
              "rows");
    const TensorId logits = b.add("Gemm", {rows, weight, bias}, {{"transB", std::int64_t{1}}}, "logits");
    const TensorId targets =
        b.add("Reshape", {labels}, {{"shape", Sizes{config.context}}, {"batch_axis", std::int64_t{0}}}, "targets");
    const TensorId loss =
        b.add("SoftmaxCrossEntropyLoss", {logits, targets}, {{"ignore_index", std::int64_t{-100}}}, "loss");
    b.popScope();
    b.output(loss);
    b.loss(loss);
    return std::move(b).build();
}

Result<Graph> rnnClassifier(const RnnConfig &config)
{
    for (const std::int64_t size : {config.inputs, config.hidden, config.classes, config.steps})
        if (size < 1)
            return badInput("model '" + config.name + "': inputs, hidden units, classes and steps must be at least 1");
    const auto normal = [](std::int64_t fanIn) -> Initializer {
        return {Initializer::Kind::Normal, 0, 1 / std::sqrt(static_cast<double>(fanIn)), nullptr, {}, 0};
    };
    const Initializer zeros{Initializer::Kind::Zeros, 0, 0, nullptr, {}, 0};
    GraphBuilder b(config.name);
    const TensorId x = b.input("x", DType::F32, Shape::batched({config.steps, config.inputs}));
    const TensorId labels = b.input("labels", DType::I64, Shape::batched({}));
    b.pushScope("rnn");
    const auto states =
        b.addMany("RNN",
                  {x, b.parameter("rnn.W", Shape::of({1, config.hidden, config.inputs}), normal(config.inputs)),
                   b.parameter("rnn.R", Shape::of({1, config.hidden, config.hidden}), normal(config.hidden)),
                   b.parameter("rnn.B", Shape::of({1, 2 * config.hidden}), zeros)},
                  2, {{"hidden_size", config.hidden}, {"layout", std::int64_t{1}}}, "rnn");
    const TensorId last = b.add("Squeeze", {states[1]}, {{"axes", std::vector<std::int64_t>{1}}}, "last");
    b.popScope();
    b.pushScope("head");
    const TensorId logits =
        b.add("Gemm",
              {last, b.parameter("head.weight", Shape::of({config.classes, config.hidden}), normal(config.hidden)),
               b.parameter("head.bias", Shape::of({config.classes}), zeros)},
              {{"transB", std::int64_t{1}}}, "logits");
    const TensorId loss = b.add("SoftmaxCrossEntropyLoss", {logits, labels}, {}, "loss");
    b.popScope();
    b.output(loss);
    b.loss(loss);
    return std::move(b).build();
}

} // namespace planloom::graph
