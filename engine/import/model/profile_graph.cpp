// SPDX-License-Identifier: Apache-2.0
#include "engine/import/model/profile_graph.h"

#include "engine/graph/layer_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace planloom::import {
namespace {

constexpr double kElementBytes = 4;
/// Keeps element counts exact in a double and sums of them within 64 bits.
constexpr double kMaxBytes = 1e15;

bool isFigure(double value, double limit) { return std::isfinite(value) && value >= 0 && value <= limit; }

/// An optional input left out and a zero-byte output still need an element: a tensor has at least one.
std::int64_t wholeElements(double bytes) { return std::max<std::int64_t>(1, std::llround(bytes / kElementBytes)); }

Status checkLayer(const ProfileLayerSpec &layer, std::size_t count)
{
    if (!isFigure(layer.forwardMs, kMaxBytes) || !isFigure(layer.backwardMs, kMaxBytes))
        return badInput(
            fmt::format("layer '{}' has a negative or endless time; give milliseconds of 0 or more", layer.name));
    if (!isFigure(layer.outputBytes, kMaxBytes) || !isFigure(layer.parameterBytes, kMaxBytes))
        return badInput(fmt::format("layer '{}' has a negative or endless size; give bytes of 0 or more", layer.name));
    for (const std::size_t input : layer.inputs)
        if (input >= count)
            return badInput(fmt::format("layer '{}' reads layer number {}, but there are {}; correct the edge",
                                        layer.name, input, count));
    return {};
}

Status check(double profileBatch, const std::vector<ProfileLayerSpec> &layers)
{
    if (layers.empty())
        return badInput("the profile has no layers; give at least one");
    if (!std::isfinite(profileBatch) || profileBatch < 1 || profileBatch > 1e9)
        return badInput(
            fmt::format("the profile batch is {}; give the samples that the times are for, 1 or more", profileBatch));
    std::set<std::string> names;
    for (const ProfileLayerSpec &layer : layers) {
        if (layer.name.empty() || !names.insert(layer.name).second)
            return badInput(
                fmt::format("layer name '{}' is empty or used twice; give every layer its own name", layer.name));
        if (Status status = checkLayer(layer, layers.size()); !status)
            return status;
    }
    return {};
}

graph::Attributes attributesOf(const ProfileLayerSpec &layer, double profileBatch, bool said)
{
    graph::Attributes attributes{{"forward_seconds", layer.forwardMs / 1e3},
                                 {"backward_seconds", layer.backwardMs / 1e3},
                                 {graph::kProfileBatch, profileBatch}};
    if (layer.inPlace)
        attributes.emplace(graph::kInPlace, std::int64_t{1});
    if (!said)
        attributes.emplace(graph::kMinibatchUnit, std::int64_t{1});
    return attributes;
}

Result<graph::Graph> buildGraph(const std::string &name, double profileBatch, bool said,
                                const std::vector<ProfileLayerSpec> &layers)
{
    graph::GraphBuilder builder(name);
    const TensorId input = builder.input("input", graph::DType::F32, graph::Shape::batched({1}));
    std::vector<TensorId> outputs;
    std::vector<bool> isRead(layers.size(), false);
    for (const ProfileLayerSpec &layer : layers) {
        const std::int64_t elements = wholeElements(layer.outputBytes / profileBatch);
        outputs.push_back(
            builder.activation(layer.name + "/out", graph::DType::F32, graph::Shape::batched({elements}), true));
        for (const std::size_t from : layer.inputs)
            isRead[from] = true;
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
        std::vector<TensorId> inputs;
        for (const std::size_t from : layers[i].inputs)
            inputs.push_back(outputs[from]);
        if (inputs.empty())
            inputs.push_back(input);
        if (layers[i].parameterBytes > 0)
            inputs.push_back(builder.parameter(layers[i].name + "/weight",
                                               graph::Shape::of({wholeElements(layers[i].parameterBytes)}),
                                               {graph::Initializer::Kind::Zeros, 0, 0, {}, {}, 0}));
        builder.addOp("ProfiledLayer", layers[i].name, {}, std::move(inputs), {outputs[i]},
                      attributesOf(layers[i], profileBatch, said));
        if (!isRead[i])
            builder.output(outputs[i]);
    }
    return std::move(builder).build();
}

cost::Profile profileOf(const std::string &name, double profileBatch, const std::vector<ProfileLayerSpec> &layers)
{
    cost::Profile profile;
    profile.model = name;
    profile.source = "layer profile " + name;
    for (const ProfileLayerSpec &layer : layers)
        profile.ops[layer.name] = {{profileBatch, Seconds(layer.forwardMs / 1e3), Seconds(layer.backwardMs / 1e3)}};
    return profile;
}

} // namespace

Result<Model> profileModel(const std::string &name, std::optional<double> profileBatch,
                           const std::vector<ProfileLayerSpec> &layers)
{
    const double samples = profileBatch.value_or(1);
    if (Status status = check(samples, layers); !status)
        return status.error().in(name);
    Result<graph::Graph> graph = buildGraph(name, samples, profileBatch.has_value(), layers);
    if (!graph)
        return graph.error().in(name);
    return Model{std::make_shared<const graph::Graph>(std::move(*graph)),
                 std::make_shared<const cost::Profile>(profileOf(name, samples, layers)),
                 name,
                 {}};
}

} // namespace planloom::import
