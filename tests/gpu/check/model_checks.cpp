// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/zoo/zoo.h"
#include "gpu/check/checks.h"
#include "gpu/check/training.h"
#include "gpu/small_images.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace planloom::check {

namespace {

constexpr std::int64_t kSteps = 5;

struct Model {
    std::string name;
    Result<graph::Graph> graph;
    std::int64_t batch;
    std::vector<plan::Precision> precisions;
    /// A new ResNet with few samples a micro-batch amplifies roundings: with SGD at 1e-3 a hundredfold a step, with
    /// AdamW, whose first steps have the gradients' signs, more.
    bool adamw = true;
};

constexpr plan::Precision kFull = plan::Precision::Float32;
constexpr plan::Precision kHalf = plan::Precision::BFloat16;

graph::TransformerConfig smallTransformer()
{
    graph::TransformerConfig config;
    config.layers = 2;
    config.heads = 2;
    config.hidden = 32;
    config.feedForward = 128;
    config.vocabulary = 256;
    config.context = 16;
    return config;
}

graph::LstmConfig smallLstm()
{
    graph::LstmConfig config;
    config.embedding = config.hidden = 24;
    config.vocabulary = 50;
    config.context = 6;
    return config;
}

std::vector<Model> smallModels()
{
    constexpr std::int64_t kImage = 64;
    const auto images = graph::resnet50();
    std::vector<Model> models;
    models.push_back({"gpt", graph::gpt(smallTransformer()), 8, {kFull, kHalf}});
    models.push_back({"llama", graph::llama(smallTransformer(), 1, 10000, 1e-6), 8, {kFull, kHalf}});
    models.push_back({"bert", graph::bert(smallTransformer()), 8, {kFull, kHalf}});
    models.push_back({"lstm", graph::lstmLanguageModel(smallLstm()), 8, {kFull}});
    models.push_back({"resnet-50/64", images ? test::withImages(*images, kImage) : images, 8, {kFull}, false});
    return models;
}

std::vector<Model> fullModels()
{
    graph::TransformerConfig bert;
    bert.name = "bert-base";
    bert.vocabulary = 30522;
    bert.context = 512;
    std::vector<Model> models;
    models.push_back({"gpt2", graph::gpt({}), 2, {kFull, kHalf}});
    models.push_back({"bert-base", graph::bert(bert), 2, {kFull, kHalf}});
    models.push_back({"lstm-lm", graph::lstmLanguageModel({}), 4, {kFull, kHalf}});
    models.push_back({"resnet-50", graph::resnet50(), 8, {kFull, kHalf}, false});
    return models;
}

double worstOf(const ModelRow &row)
{
    double worst = 0;
    for (std::size_t i = 0; i < std::min(row.losses.size(), row.expected.size()); ++i) {
        const double apart = std::fabs(row.losses[i] - row.expected[i]) / std::fabs(row.expected[i]);
        worst = apart > worst || std::isnan(apart) ? apart : worst;
    }
    return worst;
}

std::string problemOf(const ModelRow &row, double tolerance)
{
    if (row.losses.size() != kSteps || row.expected.size() != kSteps)
        return fmt::format("{} losses, and {} of the processor", row.losses.size(), row.expected.size());
    if (!(row.worst <= tolerance))
        return fmt::format("losses differ by more than {}", tolerance);
    if (row.arenaUsed != row.arenaPlanned)
        return "the arena is not as large as planned";
    return row.sameBits ? "" : "a second training gives other bits";
}

/// Fills in what the trainings of @p plan show.
Status trainAll(ModelRow &row, const plan::Subject &subject, const plan::Plan &plan, device::PluginDevice &gpu)
{
    const auto before = gpu.onHost();
    const auto first = train(subject, plan, kSteps, &gpu);
    if (!first)
        return first.error();
    for (const auto &[name, count] : gpu.onHost())
        if (!before.contains(name) || before.at(name) != count)
            row.onHost.push_back(name);
    const auto second = train(subject, plan, kSteps, &gpu);
    if (!second)
        return second.error();
    const auto expected = train(subject, plan, kSteps, nullptr);
    if (!expected)
        return expected.error();
    row.losses = first->losses;
    row.expected = expected->losses;
    row.sameBits = first->losses == second->losses && first->parameters == second->parameters;
    row.arenaPlanned = first->arenaPlanned;
    row.arenaUsed = first->arenaUsed;
    return {};
}

ModelRow checkModel(const Model &model, plan::Precision precision, device::PluginDevice &gpu)
{
    ModelRow row;
    row.model = model.name;
    row.precision = plan::name(precision);
    const auto cluster = clusterOf(gpu.name());
    if (!model.graph || !cluster) {
        row.wrong = !model.graph ? model.graph.error().text() : cluster.error().text();
        return row;
    }
    const plan::Subject subject =
        plan::makeSubject(std::make_shared<const graph::Graph>(*model.graph), *cluster, nullptr, {});
    plan::Plan plan = planOf(subject, model.batch, model.batch / 2, precision);
    if (!model.adamw) {
        plan.optimizer.rule = *update::ConfiguredRule::named("sgd");
        plan.optimizer.learningRate = 1e-5;
    }
    const Status trained = trainAll(row, subject, plan, gpu);
    row.worst = worstOf(row);
    row.wrong = trained ? problemOf(row, precision == kHalf ? 1e-2 : 1e-4) : trained.error().text();
    return row;
}

} // namespace

std::vector<ModelRow> checkModels(device::PluginDevice &gpu, bool full, const Say &say)
{
    std::vector<ModelRow> rows;
    for (const Model &model : full ? fullModels() : smallModels())
        for (const plan::Precision precision : model.precisions) {
            say(fmt::format("{} in {}, {} steps", model.name, plan::name(precision), kSteps));
            rows.push_back(checkModel(model, precision, gpu));
        }
    return rows;
}

} // namespace planloom::check
