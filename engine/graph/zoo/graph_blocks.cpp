// SPDX-License-Identifier: Apache-2.0
// Graph networks in block form: the rows of a mini-batch once, and lists of entries that say which of them are added
// up.
#include "engine/graph/zoo/zoo.h"

#include <cmath>
#include <optional>
#include <vector>

namespace planloom::graph {
namespace {

Initializer zeroShift() { return {Initializer::Kind::Zeros, 0, 0, nullptr, {}, 0}; }

Status checkSizes(const GraphSageConfig &config)
{
    constexpr std::int64_t kMost = 1 << 20;
    for (const std::int64_t size :
         {config.features, config.hidden, config.classes, config.firstFanout, config.secondFanout}) {
        if (size < 1 || size > kMost)
            return badInput("model '" + config.name + "': sizes and fan-outs must lie between 1 and "
                            + std::to_string(kMost));
    }
    return {};
}

/// What a layer adds up: for each of its targets a list of entries.
struct Entries {
    TensorId offsets;
    TensorId indices;
    std::optional<TensorId> weights; ///< factors of the entries
};

/// Inputs of layer @p layer for @p targets targets and @p entries entries a sample.
Entries entriesOf(GraphBuilder &b, const char *layer, std::int64_t targets, std::int64_t entries)
{
    return {b.input(std::string("offsets") + layer, DType::I64, Shape::batched({}, targets)),
            b.input(std::string("indices") + layer, DType::I64, Shape::batched({}, entries)), std::nullopt};
}

struct DenseLayer {
    TensorId weight;
    TensorId bias;

    DenseLayer(GraphBuilder &b, const std::string &name, std::int64_t in, std::int64_t out, double gain)
        : weight(
            b.parameter(name + ".weight", Shape::of({in, out}), normal(std::sqrt(gain / static_cast<double>(in))))),
          bias(b.parameter(name + ".bias", Shape::of({out}), zeroShift()))
    {
    }
    TensorId apply(GraphBuilder &b, TensorId x) const
    {
        return b.add("Add", {b.add("MatMul", {x, weight}, {}, "matmul"), bias}, {}, "bias");
    }
};

/// The loss of the second layer's results, inside its scope.
Result<Graph> withLoss(GraphBuilder &&b, TensorId logits, TensorId labels)
{
    const TensorId loss =
        b.add("SoftmaxCrossEntropyLoss", {logits, labels}, {{"ignore_index", std::int64_t{-100}}}, "loss");
    b.popScope();
    b.output(loss);
    b.loss(loss);
    return std::move(b).build();
}

/// GraphSAGE with means, or with sums by factors (@p factors).
Result<Graph> sageBlocks(const GraphSageConfig &config, bool factors)
{
    if (Status status = checkSizes(config); !status)
        return status.error();
    const std::int64_t first = config.firstFanout;
    const std::int64_t drawn = first + first * config.secondFanout;
    GraphBuilder b(config.name);
    const TensorId x = b.input("x", DType::F32, Shape::batched({config.features}, 1 + drawn));
    const TensorId own0 = b.input("own0", DType::I64, Shape::batched({}, 1 + first));
    Entries entries0 = entriesOf(b, "0", 1 + first, drawn);
    if (factors)
        entries0.weights = b.input("weights0", DType::F32, Shape::batched({}, drawn));
    const TensorId own1 = b.input("own1", DType::I64, Shape::batched({}));
    Entries entries1 = entriesOf(b, "1", 1, first);
    if (factors)
        entries1.weights = b.input("weights1", DType::F32, Shape::batched({}, first));
    const TensorId labels = b.input("labels", DType::I64, Shape::batched({}));
    const DenseLayer layer0(b, "layers.0", 2 * config.features, config.hidden, 2);
    const DenseLayer layer1(b, "layers.1", 2 * config.hidden, config.classes, 1);
    const auto apply = [&b](const DenseLayer &layer, TensorId rows, TensorId own, const Entries &entries) {
        std::vector<TensorId> inputs{entries.offsets, entries.indices, rows};
        if (entries.weights)
            inputs.push_back(*entries.weights);
        const TensorId mean =
            b.add("SpMM", inputs, {{"reduce", std::string(entries.weights ? "sum" : "mean")}}, "mean");
        const TensorId self = b.add("Gather", {rows, own}, {{"axis", std::int64_t{0}}}, "own");
        return layer.apply(b, b.add("Concat", {self, mean}, {{"axis", std::int64_t{1}}}, "concat"));
    };
    b.pushScope("layers/0");
    const TensorId h = b.add("Relu", {apply(layer0, x, own0, entries0)}, {}, "relu");
    b.popScope();
    b.pushScope("layers/1");
    const TensorId logits = apply(layer1, h, own1, entries1);
    return withLoss(std::move(b), logits, labels);
}

} // namespace

Result<Graph> graphSageBlocks(const GraphSageConfig &config) { return sageBlocks(config, false); }

Result<Graph> graphSageWhole(const GraphSageConfig &config) { return sageBlocks(config, true); }

Result<Graph> gcn(const GraphSageConfig &config)
{
    if (Status status = checkSizes(config); !status)
        return status.error();
    const std::int64_t first = config.firstFanout;
    const std::int64_t drawn = first + first * config.secondFanout;
    GraphBuilder b(config.name);
    const TensorId x = b.input("x", DType::F32, Shape::batched({config.features}, 1 + drawn));
    const Entries entries0 = entriesOf(b, "0", 1 + first, 1 + first + drawn);
    const TensorId weights0 = b.input("weights0", DType::F32, Shape::batched({}, 1 + first + drawn));
    const Entries entries1 = entriesOf(b, "1", 1, 1 + first);
    const TensorId weights1 = b.input("weights1", DType::F32, Shape::batched({}, 1 + first));
    const TensorId labels = b.input("labels", DType::I64, Shape::batched({}));
    const DenseLayer layer0(b, "layers.0", config.features, config.hidden, 2);
    const DenseLayer layer1(b, "layers.1", config.hidden, config.classes, 1);
    const auto sum = [&b](TensorId rows, const Entries &entries, TensorId weights) {
        return b.add("SpMM", {entries.offsets, entries.indices, rows, weights}, {{"reduce", std::string("sum")}},
                     "sum");
    };
    b.pushScope("layers/0");
    const TensorId h = b.add("Relu", {layer0.apply(b, sum(x, entries0, weights0))}, {}, "relu");
    b.popScope();
    b.pushScope("layers/1");
    const TensorId logits = layer1.apply(b, sum(h, entries1, weights1));
    return withLoss(std::move(b), logits, labels);
}

} // namespace planloom::graph
