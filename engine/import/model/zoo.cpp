// SPDX-License-Identifier: Apache-2.0
#include "engine/import/model/zoo.h"

#include "engine/graph/layers.h"
#include "engine/graph/zoo/zoo.h"
#include "engine/import/model/profile_graph.h"

#include <functional>

namespace planloom::import {
namespace {

struct BuiltIn {
    ZooEntry entry;
    std::function<Result<graph::Graph>()> build;
    /// With other samples than its own; null where the model has no sequence.
    std::function<Result<graph::Graph>(std::int64_t sequence)> withSequence = nullptr;
};

Result<graph::Graph> tooLong(std::int64_t sequence, std::int64_t most)
{
    return badInput("has " + std::to_string(most) + " tokens of context, not " + std::to_string(sequence)
                    + "; give --sequence " + std::to_string(most) + " or less");
}

/// A model of @p config's kind: its samples may be as long as its context.
BuiltIn languageModel(ZooEntry entry, const graph::TransformerConfig &config,
                      const std::function<Result<graph::Graph>(const graph::TransformerConfig &)> &build)
{
    const auto shorter = [config, build](std::int64_t sequence) {
        if (sequence > config.context)
            return tooLong(sequence, config.context);
        graph::TransformerConfig changed = config;
        changed.positions = config.context;
        changed.context = sequence;
        return build(changed);
    };
    return {std::move(entry), [config, build] { return build(config); }, shorter};
}

Result<graph::Graph> lstmOf(std::int64_t sequence)
{
    constexpr std::int64_t kMostTokens = 1 << 20;
    if (sequence > kMostTokens)
        return tooLong(sequence, kMostTokens);
    graph::LstmConfig config;
    config.context = sequence;
    return graph::lstmLanguageModel(config);
}

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

graph::TransformerConfig gpt2Xl()
{
    graph::TransformerConfig config;
    config.name = "gpt2-xl";
    config.layers = 48;
    config.heads = 25;
    config.hidden = 1600;
    config.feedForward = 6400;
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

/// A GPT over 2,048 tokens and Megatron-LM's padded vocabulary.
graph::TransformerConfig largeGpt(const char *name, std::int64_t layers, std::int64_t heads, std::int64_t hidden)
{
    graph::TransformerConfig config;
    config.name = name;
    config.layers = layers;
    config.heads = heads;
    config.hidden = hidden;
    config.feedForward = 4 * hidden;
    config.vocabulary = 51200;
    config.context = 2048;
    return config;
}

/// The models of Korthikanti et al., 2022, as they ran then: attention in pieces, dropout 0.1 with masks (zoo.h).
graph::TransformerConfig published(graph::TransformerConfig config)
{
    config.name += "-2022";
    config.unfusedDropout = 0.1;
    return config;
}

graph::TransformerConfig llama7()
{
    graph::TransformerConfig config;
    config.name = "llama-2-7b";
    config.layers = 32;
    config.heads = 32;
    config.hidden = 4096;
    config.feedForward = 11008;
    config.vocabulary = 32000;
    config.context = 4096;
    config.tiedEmbeddings = false;
    return config;
}

/// For the graph of Debian's packages.
graph::GraphSageConfig graphModel(const char *name)
{
    graph::GraphSageConfig config;
    config.name = name;
    return config;
}

/// For a planted partition with the command's defaults.
graph::GraphSageConfig blockModel(const char *name)
{
    graph::GraphSageConfig config;
    config.name = name;
    config.features = 16;
    config.hidden = 32;
    config.classes = 4;
    return config;
}

graph::TransformerConfig gpt22() { return largeGpt("gpt-22b", 48, 64, 6144); }
graph::TransformerConfig gpt175() { return largeGpt("gpt-175b", 96, 96, 12288); }

const std::vector<BuiltIn> &builtIns()
{
    static const std::vector<BuiltIn> all = {
        {{"mlp", "64-128-64-10 perceptron, fits the handwritten digits"},
         [] {
             return graph::mlp("mlp", {64, 128, 64, 10});
         }},
        languageModel({"gpt-nano",
                       "GPT over bytes: 4 layers, width 128, 64 tokens of context; trains in seconds on a CPU"},
                      nano(), graph::gpt),
        languageModel({"gpt2", "GPT-2, 124 M parameters, 1024 tokens of context"}, gpt2Small(), graph::gpt),
        languageModel({"gpt2-xl", "GPT-2 of 1.5 B parameters, 1024 tokens"}, gpt2Xl(), graph::gpt),
        languageModel({"gpt-22b",
                       "GPT of 22 B parameters, 2048 tokens (Korthikanti et al., 2022), with fused attention"},
                      gpt22(), graph::gpt),
        languageModel({"gpt-175b", "GPT-3 175 B, 2048 tokens, with fused attention"}, gpt175(), graph::gpt),
        languageModel({"gpt-22b-2022",
                       "gpt-22b as measured in 2022: attention in pieces, dropout; to plan and simulate only"},
                      published(gpt22()), graph::gpt),
        languageModel({"gpt-175b-2022",
                       "gpt-175b as measured in 2022: attention in pieces, dropout; to plan and simulate only"},
                      published(gpt175()), graph::gpt),
        languageModel({"llama-2-7b", "LLaMA 2 of 7 B parameters, 4096 tokens"}, llama7(),
                      [](const graph::TransformerConfig &config) { return graph::llama(config, 32, 10000, 1e-5); }),
        languageModel({"bert-large", "BERT-Large encoder with masked-token loss, 512 tokens"}, bertLarge(),
                      graph::bert),
        {{"lstm-lm", "two LSTM layers of 650 units over 10,000 words, 35 at a time"},
         [] { return graph::lstmLanguageModel({}); },
         lstmOf},
        {{"rnn", "RNN of 32 units over 8 steps of 8 numbers, fits the handwritten digits by rows; trains by ADMM, too"},
         [] { return graph::rnnClassifier({}); },
         {}},
        {{"graphsage", "GraphSAGE, two layers of 64, on trees of 10 and 5 neighbours: planloom graph debian"},
         [] { return graph::graphSage({}); },
         {}},
        {{"graphsage-blocks", "the same for 16 features and 4 classes: planloom graph sbm"},
         [] { return graph::graphSage(blockModel("graphsage-blocks")); },
         {}},
        {{"graphsage-rows",
          "graphsage with each row once a mini-batch, sums by sparse products: planloom graph debian"},
         [] { return graph::graphSageBlocks(graphModel("graphsage-rows")); },
         {}},
        {{"graphsage-blocks-rows", "graphsage-blocks with each row once a mini-batch: planloom graph sbm"},
         [] { return graph::graphSageBlocks(blockModel("graphsage-blocks-rows")); },
         {}},
        {{"graphsage-blocks-whole", "graphsage-blocks on all neighbours, up to 24 of a node: planloom graph sbm"},
         [] {
             graph::GraphSageConfig config = blockModel("graphsage-blocks-whole");
             config.firstFanout = config.secondFanout = 24;
             return graph::graphSageWhole(config);
         },
         {}},
        {{"mlp-blocks", "graphsage-blocks without neighbours: planloom graph sbm"},
         [] {
             return graph::mlp("mlp-blocks", {16, 32, 4});
         }},
        {{"gcn", "graph convolutions, two layers of 64, on up to 10 and 5 neighbours: planloom graph debian"},
         [] { return graph::gcn(graphModel("gcn")); },
         {}},
        {{"gcn-blocks", "the same for 16 features and 4 classes: planloom graph sbm"},
         [] { return graph::gcn(blockModel("gcn-blocks")); },
         {}},
        {{"vgg-19", "VGG-19 for 224 x 224 images"}, [] { return graph::vgg19(); }},
        {{"resnet-50", "ResNet-50 v1.5 for 224 x 224 images"}, [] { return graph::resnet50(); }},
        {{"resnet-101", "ResNet-101 v1.5 for 224 x 224 images"}, [] { return graph::resnet101(); }},
    };
    return all;
}

/// The times of a layer profile for an executable graph whose layers have the same names: a layer's time goes to its
/// first operator.
std::shared_ptr<const cost::Profile> timesByLayer(const graph::Graph &graph, const cost::Profile &published)
{
    auto profile = std::make_shared<cost::Profile>(published);
    profile->ops.clear();
    for (const graph::Layer &layer : graph::layersOf(graph).layers) {
        const auto times = published.ops.find(layer.name);
        if (times == published.ops.end())
            return nullptr;
        for (OpId op = layer.first; op < layer.last; op = OpId(op.value + 1))
            profile->ops[graph.op(op).name] =
                op == layer.first ? times->second : std::vector<cost::OpTime>{{1, Seconds(0), Seconds(0)}};
    }
    return profile;
}

Result<Model> executable(const BuiltIn &built, const ModelOptions &options)
{
    if (options.sequence > 0 && !built.withSequence)
        return badInput("has no samples of tokens; leave --sequence out");
    auto made = options.sequence > 0 ? built.withSequence(options.sequence) : built.build();
    if (!made)
        return made.error();
    Model model{std::make_shared<const graph::Graph>(*std::move(made)), nullptr, "zoo:" + built.entry.name, {}};
    if (options.sequence > 0)
        return model; // published times are those of the model's own samples
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

Result<Model> zooModel(const std::string &name, const ModelOptions &options)
{
    for (const BuiltIn &model : builtIns()) {
        if (model.entry.name == name)
            return executable(model, options);
    }
    std::string known;
    for (const ZooEntry &entry : zooEntries())
        known += (known.empty() ? "" : ", ") + entry.name;
    for (const ZooEntry &entry : zooProfileEntries()) {
        if (entry.name != name)
            continue;
        if (options.sequence > 0)
            return badInput("is a table of layer times, which were measured with samples of one length; leave "
                            "--sequence out");
        auto model = zooProfile(name);
        if (model)
            model->source = "zoo:" + name;
        return model;
    }
    return notFound("there is no built-in model '" + name + "'; choose one of " + known);
}

} // namespace planloom::import
