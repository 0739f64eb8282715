// SPDX-License-Identifier: Apache-2.0
// The model that KinetoTraining trains, and plans for it.
#pragma once

#include "engine/import/import.h"
#include "engine/plan/plan.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace planloom::tests {

/// Blocks h/0, h/1, ... of a product with its bias and a ReLU; a head; a loss.
inline std::shared_ptr<const graph::Graph> chain(int blocks = 3)
{
    graph::GraphBuilder builder("chain");
    const auto weights = [&](const std::string &name) {
        return builder.parameter(name, graph::Shape::of({8, 8}), {graph::Initializer::Kind::Normal, 0, 1, {}, {}, 0});
    };
    const auto bias = [&](const std::string &name) {
        return builder.parameter(name, graph::Shape::of({8}), {graph::Initializer::Kind::Zeros, 0, 0, {}, {}, 0});
    };
    TensorId x = builder.input("x", graph::DType::F32, graph::Shape::batched({8}));
    const TensorId y = builder.input("y", graph::DType::F32, graph::Shape::batched({8}));
    builder.pushScope("h");
    for (int block = 0; block < blocks; ++block) {
        const std::string number = std::to_string(block);
        builder.pushScope(number);
        x = builder.add("MatMul", {x, weights("w" + number)}, {}, "up");
        x = builder.add("Add", {x, bias("b" + number)}, {}, "bias");
        x = builder.add("Relu", {x}, {}, "relu");
        builder.popScope();
    }
    builder.popScope();
    x = builder.add("MatMul", {x, weights("w.head")}, {}, "head");
    x = builder.add("Add", {x, bias("b.head")}, {}, "head.bias");
    builder.loss(builder.add("MeanSquaredErrorLoss", {x, y}, {}, "mse"));
    auto built = std::move(builder).build();
    return built ? std::make_shared<const graph::Graph>(*std::move(built)) : nullptr;
}

/// @p stages of so many layers each, on @p replicas devices each.
inline plan::Document planOf(std::shared_ptr<const graph::Graph> graph, std::size_t stages = 1, int replicas = 1,
                             std::int64_t microBatches = 2)
{
    const auto cluster = import::loadCluster("preset:h100-8");
    plan::Document document{{}, plan::makeSubject(std::move(graph), *cluster, nullptr, "chain")};
    document.plan.modelName = "chain";
    document.plan.globalBatch = 32;
    document.plan.microBatches = microBatches;
    const std::size_t layers = document.subject.layers().size();
    int device = 0;
    for (std::size_t s = 0; s < stages; ++s) {
        plan::Stage stage;
        stage.name = std::to_string(s);
        stage.firstLayer = layers * s / stages;
        stage.lastLayer = layers * (s + 1) / stages;
        for (int r = 0; r < replicas; ++r)
            stage.devices.emplace_back(device++);
        document.plan.stages.push_back(stage);
    }
    return document;
}

} // namespace planloom::tests
