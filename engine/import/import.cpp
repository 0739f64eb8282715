// SPDX-License-Identifier: Apache-2.0
#include "engine/import/import.h"

#include "engine/base/files.h"
#include "engine/import/loss/attach.h"
#include "engine/import/model/huggingface_weights.h"
#include "engine/import/model/zoo.h"
#include "engine/import/model_file.h"

#include <algorithm>
#include <filesystem>

namespace planloom::import {
namespace {

constexpr std::string_view kZoo = "zoo:";
constexpr std::int64_t kMostTextBytes = 64 << 20;

Result<Model> readGraphJson(std::string_view text, const std::string &name)
{
    auto graph = graph::graphFromJson(text);
    if (!graph)
        return graph.error().in(name);
    return Model{std::make_shared<const graph::Graph>(*std::move(graph)), nullptr, name, {}};
}

/// Tokens of a sample of a language model; 0 for other models.
std::int64_t sequenceOf(const graph::Graph &graph)
{
    for (const TensorId id : graph.withRole(graph::TensorRole::Input))
        if (const graph::Tensor &tensor = graph.tensor(id);
            tensor.type == graph::DType::I64 && tensor.shape.rank() == 2 && tensor.shape[0].batch)
            return tensor.shape[1].size;
    return 0;
}

/// A file with a graph fixes the sequence.
Result<Model> withSequence(Result<Model> model, const std::string &name, std::int64_t sequence)
{
    if (!model || sequence == 0 || sequenceOf(*model->graph) == sequence)
        return model;
    const std::int64_t own = sequenceOf(*model->graph);
    return badInput(own > 0 ? "fixes samples of " + std::to_string(own)
                            + " tokens; leave --sequence out, or export the model with other samples"
                            : "has no samples of tokens; leave --sequence out")
        .in(name);
}

/// A .json file is our own graph if marked so, else a Hugging Face configuration.
Result<Model> readModelJson(std::string_view text, const std::string &name, const ModelOptions &options)
{
    if (text.find("\"planloom.graph/1\"") != std::string_view::npos)
        return withSequence(readGraphJson(text, name), name, options.sequence);
    if (text.find("\"traceEvents\"") != std::string_view::npos)
        return badInput("is a trace in Chrome's format and no model; the studio opens it, and planloom inspect tells "
                        "what it holds")
            .in(name);
    auto model = readHuggingFaceConfig(text, name, options);
    return model ? withWeightsBeside(*std::move(model), std::filesystem::path(name).parent_path().string()) : model;
}

/// Only where it is asked for: these formats say themselves what is trained.
Result<Model> withChosenLoss(Result<Model> model, const std::string &name, const ModelOptions &options)
{
    if (!model || options.loss.empty())
        return model;
    auto made = withLoss(*std::move(model), options.loss);
    return made ? std::move(made) : made.error().in(name);
}

Result<Model> readModelFile(const std::string &source, const ModelOptions &options)
{
    const std::filesystem::path path(source);
    const std::string extension = path.extension().string();
    if (extension != ".onnx" && extension != ".json" && extension != ".txt")
        return badInput("is not a model: name an .onnx file, a config.json, a layer profile (.txt) or zoo:NAME")
            .in(source);
    const auto bytes = extension == ".onnx" ? readFile(path) : readFile(path, kMostTextBytes);
    if (!bytes)
        return bytes.error();
    if (extension == ".onnx")
        return withSequence(readOnnx(*bytes, source, path.parent_path().string(), options.loss), source,
                            options.sequence);
    auto model = extension == ".json"
        ? readModelJson(*bytes, source, options)
        : withSequence(readLayerProfile(*bytes, source, options.profileSamples), source, options.sequence);
    return withChosenLoss(std::move(model), source, options);
}

bool lacksFirstValue(const graph::Tensor &tensor)
{
    const bool kept = tensor.role == graph::TensorRole::Parameter || tensor.role == graph::TensorRole::State;
    return kept && tensor.init.kind == graph::Initializer::Kind::None;
}

/// Whether both are the same operators on the same tensors. Values do not count.
bool sameNetwork(const graph::Graph &a, const graph::Graph &b)
{
    const auto sameOp = [](const graph::Op &x, const graph::Op &y) {
        return x.type == y.type && x.name == y.name && x.inputs == y.inputs && x.outputs == y.outputs;
    };
    const auto sameTensor = [](const graph::Tensor &x, const graph::Tensor &y) {
        return x.name == y.name && x.type == y.type && x.shape == y.shape && x.role == y.role;
    };
    return std::equal(a.ops().begin(), a.ops().end(), b.ops().begin(), b.ops().end(), sameOp)
        && std::equal(a.tensors().begin(), a.tensors().end(), b.tensors().begin(), b.tensors().end(), sameTensor);
}

/// The model of @p graph, whose first value of @p lacking is in @p source, read again.
Result<std::shared_ptr<const graph::Graph>> readAgain(const graph::Graph &graph, const std::string &source,
                                                      const graph::Tensor &lacking)
{
    ModelOptions options; // a configuration leaves the sequence open; the plan was made for one
    options.loss = graph.lossOrigin().terms;
    if (source.ends_with(".json"))
        options.sequence = sequenceOf(graph);
    auto model = loadModel(source, options);
    if (!model) {
        Error error = model.error();
        error.message += " (a plan leaves large weights in its model's file, such as '" + lacking.name + "')";
        return error;
    }
    if (!sameNetwork(graph, *model->graph))
        return badInput("is not the model that the plan was made for, which keeps the first value of '" + lacking.name
                        + "' in this file; plan again")
            .in(source);
    return model->graph;
}

bool isFile(const std::string &source) { return !source.empty() && !source.starts_with(kZoo); }

} // namespace

Result<std::shared_ptr<const graph::Graph>> withFirstValues(std::shared_ptr<const graph::Graph> graph,
                                                            const std::string &source)
{
    const auto &tensors = graph->tensors();
    const auto lacking = std::find_if(tensors.begin(), tensors.end(), lacksFirstValue);
    if (lacking == tensors.end() || !isFile(source))
        return graph;
    return readAgain(*graph, source, *lacking);
}

Result<bool> needsModelFile(const graph::Graph &graph, const std::string &source)
{
    const auto isElsewhere = [](const graph::Tensor &tensor) {
        return lacksFirstValue(tensor) || tensor.init.kind == graph::Initializer::Kind::File;
    };
    const auto &tensors = graph.tensors();
    const auto lacking = std::find_if(tensors.begin(), tensors.end(), isElsewhere);
    if (lacking == tensors.end() || !isFile(source))
        return false;
    const auto model = readAgain(graph, source, *lacking);
    if (!model)
        return model.error();
    return true;
}

Result<Model> loadModel(const std::string &source, const ModelOptions &options)
{
    if (options.profileSamples > 0 && !source.ends_with(".txt"))
        return badInput("is no layer profile in a text file; leave --profile-samples out").in(source);
    if (source.starts_with(kZoo)) {
        auto model = zooModel(source.substr(kZoo.size()), options);
        if (!model)
            return model.error().in(source);
        return withChosenLoss(std::move(model), source, options);
    }
    auto model = readModelFile(source, options);
    std::error_code unknown;
    const auto place = std::filesystem::absolute(source, unknown);
    if (model && !unknown)
        model->source = place.lexically_normal().string(); // workers, which look for weights beside it, run elsewhere
    return model;
}

} // namespace planloom::import
