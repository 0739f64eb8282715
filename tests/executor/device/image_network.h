// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"
#include "engine/graph/zoo/zoo.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::test {

/// A small network with what the rewrites look at: residual blocks with and without a convolution on the shortcut, a
/// biased convolution, branches that join and a number of channels that does not fit blocks.
class ImageNetwork {
public:
    using Sizes = std::vector<std::int64_t>;

    /// @p dropRatio: of what goes to the last layer.
    explicit ImageNetwork(double dropRatio = 0) : m_builder("images"), m_dropRatio(dropRatio)
    {
        m_x = m_builder.input("x", graph::DType::F32, graph::Shape::batched({3, 13, 11}));
        m_labels = m_builder.input("labels", graph::DType::I64, graph::Shape::batched({}));
        m_builder.pushScope("net");
    }

    TensorId conv(TensorId from, std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                  bool bias = false, std::int64_t group = 1)
    {
        const std::string name = "conv" + std::to_string(m_count++);
        std::vector<TensorId> inputs{from,
                                     m_builder.parameter(name + ".weight",
                                                         graph::Shape::of({out, in / group, kernel, kernel}),
                                                         graph::normal(0.15))};
        if (bias)
            inputs.push_back(m_builder.parameter(name + ".bias", graph::Shape::of({out}), constant(0)));
        return m_builder.add("Conv", inputs,
                             {{"kernel_shape", Sizes{kernel, kernel}},
                              {"strides", Sizes{stride, stride}},
                              {"pads", Sizes(4, kernel / 2)},
                              {"group", group}},
                             name);
    }
    TensorId norm(TensorId from, std::int64_t channels)
    {
        const std::string name = "norm" + std::to_string(m_count++);
        const graph::Shape shape = graph::Shape::of({channels});
        return m_builder.add("BatchNormalization",
                             {from, m_builder.parameter(name + ".weight", shape, constant(1)),
                              m_builder.parameter(name + ".bias", shape, constant(0)),
                              m_builder.state(name + ".mean", shape, constant(0)),
                              m_builder.state(name + ".var", shape, constant(1))},
                             {{"epsilon", 1e-5}, {"momentum", 0.9}}, name);
    }
    TensorId one(const std::string &type, std::vector<TensorId> inputs, graph::Attributes attributes = {})
    {
        return m_builder.add(type, std::move(inputs), std::move(attributes), type + std::to_string(m_count++));
    }

    Result<graph::Graph> build() &&
    {
        const graph::Attributes window{{"kernel_shape", Sizes{3, 3}},
                                       {"strides", Sizes{2, 2}},
                                       {"pads", Sizes{1, 1, 1, 1}}};
        TensorId x = one("Relu", {norm(conv(m_x, 3, 16, 3, 1), 16)});
        x = one("MaxPool", {x}, window);
        TensorId y = norm(conv(one("Relu", {norm(conv(x, 16, 16, 1, 1), 16)}), 16, 32, 3, 2), 32);
        x = one("Relu", {one("Add", {y, norm(conv(x, 16, 32, 1, 2), 32)})});
        y = norm(conv(one("Relu", {norm(conv(x, 32, 16, 1, 1), 16)}), 16, 32, 3, 1), 32);
        x = one("Relu", {one("Add", {y, x})});
        x = one("Concat", {x, one("Relu", {conv(x, 32, 16, 3, 1, true)})}, {{"axis", std::int64_t{1}}});
        x = one("Add",
                {conv(x, 48, 48, 3, 1, false, 48),
                 one("AveragePool", {x}, {{"kernel_shape", Sizes{3, 3}}, {"pads", Sizes{1, 1, 1, 1}}})});
        x = norm(conv(x, 48, 20, 1, 1, true), 20);
        x = one("Relu", {conv(x, 20, 32, 3, 1)});
        x = one("Flatten", {one("GlobalAveragePool", {x})}, {{"axis", std::int64_t{1}}});
        if (m_dropRatio > 0)
            x = one("Dropout", {x}, {{"ratio", m_dropRatio}});
        x = one("Gemm", {x, m_builder.parameter("fc.weight", graph::Shape::of({7, 32}), graph::normal(0.2))},
                {{"transB", std::int64_t{1}}});
        m_builder.popScope();
        const TensorId loss = m_builder.add("SoftmaxCrossEntropyLoss", {x, m_labels}, {}, "loss");
        m_builder.output(loss);
        m_builder.loss(loss);
        return std::move(m_builder).build();
    }

private:
    static graph::Initializer constant(int value)
    {
        return {value == 0 ? graph::Initializer::Kind::Zeros : graph::Initializer::Kind::Ones, 0, 0, nullptr, {}, 0};
    }

    graph::GraphBuilder m_builder;
    double m_dropRatio;
    TensorId m_x, m_labels;
    int m_count = 0;
};

} // namespace planloom::test
