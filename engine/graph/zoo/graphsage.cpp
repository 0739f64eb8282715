// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/zoo/zoo.h"

#include <cmath>

namespace planloom::graph {
namespace {

Initializer zeroBias() { return {Initializer::Kind::Zeros, 0, 0, nullptr, {}, 0}; }

/// One layer of GraphSAGE: [own features, mean of the neighbours' features] W + b.
struct SageLayer {
    TensorId weight;
    TensorId bias;

    TensorId apply(GraphBuilder &b, TensorId own, TensorId neighbours, std::int64_t neighbourAxis) const
    {
        const TensorId mean =
            b.add("ReduceMean", {neighbours},
                  {{"axes", std::vector<std::int64_t>{neighbourAxis}}, {"keepdims", std::int64_t{0}}}, "mean");
        const TensorId both = b.add("Concat", {own, mean}, {{"axis", neighbourAxis}}, "concat");
        return b.add("Add", {b.add("MatMul", {both, weight}, {}, "matmul"), bias}, {}, "bias");
    }
};

} // namespace

Result<Graph> graphSage(const GraphSageConfig &config)
{
    constexpr std::int64_t kMost = 1 << 20;
    for (const std::int64_t size :
         {config.features, config.hidden, config.classes, config.firstFanout, config.secondFanout}) {
        if (size < 1 || size > kMost)
            return badInput("model '" + config.name + "': sizes and fan-outs must lie between 1 and "
                            + std::to_string(kMost));
    }
    GraphBuilder b(config.name);
    const std::int64_t width = config.features;
    const TensorId x = b.input("x", DType::F32, Shape::batched({width}));
    const TensorId x1 = b.input("x1", DType::F32, Shape::batched({config.firstFanout, width}));
    const TensorId x2 = b.input("x2", DType::F32, Shape::batched({config.firstFanout, config.secondFanout, width}));
    const TensorId labels = b.input("labels", DType::I64, Shape::batched({}));
    const auto layer = [&b](const std::string &name, std::int64_t in, std::int64_t out, double gain) {
        return SageLayer{b.parameter(name + ".weight", Shape::of({2 * in, out}),
                                     normal(std::sqrt(gain / static_cast<double>(2 * in)))),
                         b.parameter(name + ".bias", Shape::of({out}), zeroBias())};
    };
    const SageLayer first = layer("layers.0", width, config.hidden, 2);
    const SageLayer second = layer("layers.1", config.hidden, config.classes, 1);
    b.pushScope("layers/0");
    const TensorId h1 = b.add("Relu", {first.apply(b, x1, x2, 2)}, {}, "relu");
    const TensorId h0 = b.add("Relu", {first.apply(b, x, x1, 1)}, {}, "relu");
    b.popScope();
    b.pushScope("layers/1");
    const TensorId logits = second.apply(b, h0, h1, 1);
    const TensorId loss =
        b.add("SoftmaxCrossEntropyLoss", {logits, labels}, {{"ignore_index", std::int64_t{-100}}}, "loss");
    b.popScope();
    b.output(loss);
    b.loss(loss);
    return std::move(b).build();
}

} // namespace planloom::graph
