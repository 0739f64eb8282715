// SPDX-License-Identifier: Apache-2.0
#include "engine/import/model/huggingface_weights.h"

#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "engine/weights/convert.h"
#include "engine/weights/safetensors.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <set>

namespace planloom::import {
namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::TensorRole;

constexpr const char *kSingle = "model.safetensors";
constexpr const char *kIndex = "model.safetensors.index.json";
constexpr std::int64_t kMostIndexBytes = 64 << 20;

/// A tensor in one of the files.
struct Source {
    std::string file;
    weights::StoredTensor tensor;
};
using Sources = std::map<std::string, Source, std::less<>>;

Error missingFile(const std::string &name, const std::string &path)
{
    return badInput(fmt::format("names '{}', which is no plain file name beside it", name)).in(path);
}

/// The files that the index distributes the tensors over. They lie beside it; links are followed, as the hub's cache
/// consists of them.
Result<std::set<std::string>> filesOfIndex(const std::string &path)
{
    const auto text = readFile(path, kMostIndexBytes);
    if (!text)
        return text.error();
    const auto json = parseJson(*text);
    if (!json)
        return json.error().in(path);
    JsonReader reader(*json);
    std::set<std::string> files;
    if (!reader.has("weight_map"))
        reader.fail("weight_map", "is missing");
    reader.each("weight_map", [&](JsonReader &file) { files.insert(file.asText()); });
    if (const Status good = reader.failure(*text); !good)
        return good.error().in(path);
    for (const std::string &file : files)
        if (file.find('/') != std::string::npos || !file.ends_with(".safetensors"))
            return missingFile(file, path);
    return files;
}

Result<Sources> readSources(const fs::path &folder, const std::set<std::string> &files)
{
    Sources sources;
    for (const std::string &file : files) {
        const std::string path = (folder / file).string();
        const auto opened = weights::SafetensorsFile::open(path);
        if (!opened)
            return opened.error();
        for (const auto &tensor : opened->header().tensors)
            if (const auto [at, fresh] = sources.try_emplace(tensor.name, Source{file, tensor}); !fresh)
                return badInput(fmt::format("holds '{}', which {} holds too", tensor.name, at->second.file)).in(path);
    }
    return sources;
}

std::string withEnding(const std::string &name, std::string_view from, std::string_view to)
{
    return name.substr(0, name.size() - from.size()) + std::string(to);
}

/// Names of a parameter in files: its own; without the prefix that only models with a head have; normalisations as
/// TensorFlow's BERT did.
std::vector<std::string> namesOf(const std::string &parameter)
{
    std::vector<std::string> names{parameter};
    for (const std::string_view prefix : {"transformer.", "model.", "bert.", "gpt_neox.", "vit."})
        if (parameter.starts_with(prefix))
            names.push_back(parameter.substr(prefix.size()));
    if (parameter.find("LayerNorm") != std::string::npos)
        for (std::size_t i = 0, count = names.size(); i < count; ++i)
            names.push_back(parameter.ends_with(".weight") ? withEnding(names[i], "weight", "gamma")
                                                           : withEnding(names[i], "bias", "beta"));
    return names;
}

/// Masks and positions that older files carry, heads and tables of tied models (which are the embedding again), T5's
/// bias of cross attention, which has none, and BERT's second task.
bool isKnownExtra(std::string_view name)
{
    constexpr std::array endings{".attn.bias",
                                 ".attn.masked_bias",
                                 ".attention.bias",
                                 ".attention.masked_bias",
                                 "position_ids",
                                 "rotary_emb.inv_freq",
                                 "encoder.embed_tokens.weight",
                                 "decoder.embed_tokens.weight",
                                 "EncDecAttention.relative_attention_bias.weight"};
    constexpr std::array parts{"lm_head.", "embed_out.", "cls.predictions.decoder.", "pooler.",
                               "cls.seq_relationship."};
    return std::any_of(endings.begin(), endings.end(), [&](const char *ending) { return name.ends_with(ending); })
        || std::any_of(parts.begin(), parts.end(),
                       [&](const char *part) { return name.find(part) != std::string_view::npos; });
}

Status fits(const graph::Tensor &parameter, const Source &source)
{
    const auto &stored = source.tensor;
    if (const auto wanted = parameter.shape.at(1); stored.sizes != wanted)
        return badInput(
            fmt::format("'{}' has sizes [{}] where config.json makes them [{}]; take both files from the same model",
                        stored.name, fmt::join(stored.sizes, ", "), fmt::join(wanted, ", ")));
    if (!stored.type || !weights::convertible(*stored.type, parameter.type))
        return unsupported(
            fmt::format("'{}' is stored as {}, which cannot become {}; convert the file to F32, F16 or BF16",
                        stored.name, stored.format, graph::name(parameter.type)));
    return {};
}

using Initializers = std::map<std::string, graph::Initializer, std::less<>>;

/// A place in the files for every parameter of the model; unused tensors give a warning.
Result<Initializers> match(Model &model, const Sources &sources, const fs::path &folder)
{
    Initializers found;
    std::set<std::string_view> used;
    std::vector<std::string> missing;
    for (const TensorId id : model.graph->withRole(TensorRole::Parameter)) {
        const graph::Tensor &parameter = model.graph->tensor(id);
        auto source = sources.end();
        for (const std::string &name : namesOf(parameter.name))
            if (source == sources.end())
                source = sources.find(name);
        if (source == sources.end()) {
            missing.push_back(parameter.name);
            continue;
        }
        if (const Status good = fits(parameter, source->second); !good)
            return good.error().in((folder / source->second.file).string());
        used.insert(source->first);
        graph::Initializer init;
        init.kind = graph::Initializer::Kind::File;
        init.file = source->second.file;
        init.offset = source->second.tensor.begin;
        found[parameter.name] = init;
    }
    if (!missing.empty())
        return badInput(fmt::format("{} of the model's {} parameters are not in the weights beside config.json, '{}' "
                                    "first; move the weights away to start from "
                                    "random values",
                                    missing.size(), missing.size() + found.size(), missing.front()))
            .in(folder.string());
    std::vector<std::string> extra;
    for (const auto &[name, source] : sources)
        if (!used.contains(name) && !isKnownExtra(name))
            extra.push_back(name);
    if (!extra.empty())
        model.warnings.push_back(
            fmt::format("{} tensors of the weights belong to no parameter and are left out, '{}' first", extra.size(),
                        extra.front()));
    return found;
}

/// The same model, with other first values. Tensors keep their ids because they are added in their order.
Result<Graph> withInitializers(const Graph &from, const Initializers &initializers)
{
    graph::GraphBuilder builder(from.name());
    for (graph::Tensor tensor : from.tensors()) {
        const auto init = initializers.find(tensor.name);
        if (tensor.role == TensorRole::Parameter && init != initializers.end())
            tensor.init = init->second;
        builder.copy(tensor);
    }
    for (const graph::Op &op : from.ops())
        builder.addOp(op.type, op.name, op.scope, op.inputs, op.outputs, op.attributes);
    for (const TensorId output : from.outputs())
        builder.output(output);
    if (from.loss().valid())
        builder.loss(from.loss(), from.lossOrigin());
    return std::move(builder).build();
}

} // namespace

Result<Model> withWeightsBeside(Model model, const std::string &folder)
{
    const fs::path place = folder.empty() ? fs::path(".") : fs::path(folder);
    std::error_code ignored;
    Result<std::set<std::string>> files(std::set<std::string>{kSingle});
    if (!fs::exists(place / kSingle, ignored)) {
        if (!fs::exists(place / kIndex, ignored))
            return model;
        files = filesOfIndex((place / kIndex).string());
    }
    if (!files)
        return files.error();
    const auto sources = readSources(place, *files);
    if (!sources)
        return sources.error();
    const auto initializers = match(model, *sources, place);
    if (!initializers)
        return initializers.error();
    auto graph = withInitializers(*model.graph, *initializers);
    if (!graph)
        return graph.error();
    model.graph = std::make_shared<const Graph>(*std::move(graph));
    return model;
}

} // namespace planloom::import
