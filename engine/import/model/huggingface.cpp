// SPDX-License-Identifier: Apache-2.0
// config.json of Hugging Face transformers.
#include "engine/base/json_reader.h"
#include "engine/import/import.h"
#include "engine/import/model/huggingface_families.h"

#include <algorithm>
#include <fmt/format.h>

namespace planloom::import {
namespace {

std::string familyNames()
{
    std::string names;
    const auto families = modelFamilies();
    for (std::size_t i = 0; i < families.size(); ++i)
        names += (i == 0 ? "" : i + 1 == families.size() ? " and " : ", ") + std::string(families[i].type);
    return names;
}

Error unknownType(const std::string &type)
{
    constexpr std::size_t kMost = 60;
    const std::string_view why = whyNotBuilt(type);
    return unsupported(fmt::format("is of model type '{}'{}; {} are built in, export others to ONNX",
                                   type.substr(0, kMost), why.empty() ? "" : fmt::format(": {}", why), familyNames()));
}

} // namespace

Result<Model> readHuggingFaceConfig(std::string_view text, const std::string &name, const ModelOptions &options)
{
    const auto config = parseJson(text);
    if (!config)
        return config.error().in(name);
    if (!config->is_object() || !config->contains("model_type") || !(*config)["model_type"].is_string())
        return badInput("is no file that is known here: it has no 'schema', as plans, models and clusters have, and no "
                        "'model_type', as a Hugging Face config.json has")
            .in(name);
    const std::string type = (*config)["model_type"];
    const auto families = modelFamilies();
    const auto family =
        std::find_if(families.begin(), families.end(), [&](const ModelFamily &known) { return known.type == type; });
    if (family == families.end())
        return unknownType(type).in(name);
    ModelFields fields(*config, family->fields, family->shared);
    fields.check(family->architecture);
    if (fields.failed())
        return fields.failure(text).in(name);
    auto graph = family->build(fields, options.sequence);
    if (fields.failed())
        return fields.failure(text).in(name);
    if (!graph)
        return graph.error().in(name);
    return Model{std::make_shared<const graph::Graph>(*std::move(graph)), nullptr, name, fields.warnings()};
}

} // namespace planloom::import
