// SPDX-License-Identifier: Apache-2.0
#include "engine/import/zoo.h"

#include "engine/graph/layers.h"
#include "engine/graph/zoo.h"
#include "engine/import/profile_graph.h"

#include <functional>

namespace planloom::import {
namespace {

struct BuiltIn {
    ZooEntry entry;
    std::function<Result<graph::Graph>()> build;
};

graph::TransformerConfig nano()
{
    graph::TransformerConfig config;
    config.name = "gpt-nano";
    config.layers = 4;
    config.heads = 4;
    config.hidden = 128;
    config.feedForward = 512;
    config.vocabulary = 256; // bytes
    config.context = 64;
    return config;
}

graph::TransformerConfig gpt2Small()
{
    graph::TransformerConfig config;
    config.name = "gpt2";
    return config;
}

graph::TransformerConfig bertLarge()
{
    graph::TransformerConfig config;
    config.name = "bert-large";
    config.layers = 24;
    config.heads = 16;
    config.hidden = 1024;
    config.feedForward = 4096;
    config.vocabulary = 30522;
    config.context = 512;
    return config;
}

const std::vector<BuiltIn> &builtIns()
{
    static const std::vector<BuiltIn> all = {
        {{"mlp", "64-128-64-10 perceptron, fits the handwritten digits"}, [] { return graph::mlp("mlp", {64, 128, 64, 10}); }},
        {{"gpt-nano", "GPT over bytes: 4 layers, width 128, 64 tokens of context; trains in seconds on a CPU"}, [] { return graph::gpt(nano()); }},
        {{"gpt2", "GPT-2, 124 M parameters, 1024 tokens of context"}, [] { return graph::gpt(gpt2Small()); }},
        {{"bert-large", "BERT-Large encoder with masked-token loss, 512 tokens"}, [] { return graph::bert(bertLarge()); }},
        {{"lstm-lm", "two LSTM layers of 650 units over 10,000 words, 35 at a time"}, [] { return graph::lstmLanguageModel({}); }},
        {{"vgg-19", "VGG-19 for 224 x 224 images"}, [] { return graph::vgg19(); }},
        {{"resnet-50", "ResNet-50 v1.5 for 224 x 224 images"}, [] { return graph::resnet50(); }},
    };
    return all;
}

/// The times of a layer profile for an executable graph whose layers have the same names: a layer's time goes to its first operator.
std::shared_ptr<const cost::Profile> timesByLayer(const graph::Graph &graph, const cost::Profile &published)
{
    auto profile = std::make_shared<cost::Profile>(published);
    profile->ops.clear();
    for (const graph::Layer &layer : graph::layersOf(graph).layers) {
        const auto times = published.ops.find(layer.name);
        if (times == published.ops.end())
            return nullptr;
        for (OpId op = layer.first; op < layer.last; op = OpId(op.value + 1))
            profile->ops[graph.op(op).name] = op == layer.first ? times->second : std::vector<cost::OpTime>{{1, Seconds(0), Seconds(0)}};
    }
    return profile;
}

Result<Model> executable(const BuiltIn &built)
{
    auto made = built.build();
    if (!made)
        return made.error();
    Model model{std::make_shared<const graph::Graph>(*std::move(made)), nullptr, "zoo:" + built.entry.name, {}};
    if (const auto published = zooProfile(built.entry.name + "-layers"))
        model.profile = timesByLayer(*model.graph, *published->profile);
    return model;
}

} // namespace

std::vector<ZooEntry> zooEntries()
{
    std::vector<ZooEntry> entries;
    for (const BuiltIn &model : builtIns())
        entries.push_back(model.entry);
    for (ZooEntry &profile : zooProfileEntries())
        entries.push_back(std::move(profile));
    return entries;
}

Result<Model> zooModel(const std::string &name)
{
    for (const BuiltIn &model : builtIns()) {
        if (model.entry.name == name)
            return executable(model);
    }
    std::string known;
    for (const ZooEntry &entry : zooEntries())
        known += (known.empty() ? "" : ", ") + entry.name;
    for (const ZooEntry &entry : zooProfileEntries()) {
        if (entry.name != name)
            continue;
        auto model = zooProfile(name);
        if (model)
            model->source = "zoo:" + name;
        return model;
    }
    return notFound("there is no built-in model '" + name + "'; choose one of " + known);
}

} // namespace planloom::import
