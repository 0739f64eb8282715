// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/figures_csv.h"

#include <fmt/format.h>

#include <span>

namespace planloom::ui {

namespace {

std::string csvField(const std::string &text)
{
    if (text.find_first_of(",\"\n\r") == std::string::npos)
        return text;
    std::string quoted = "\"";
    for (const char each : text) {
        if (each == '"')
            quoted += '"';
        quoted += each;
    }
    return quoted + "\"";
}

} // namespace

std::string figuresAsCsv(const ModelFigures &figures, const graph::LayerView *layers)
{
    std::string text = "operator,scope,type,layer,stage,samples,forward_flops,backward_flops,activation_bytes,"
                       "parameter_bytes,parameters,forward_seconds,backward_seconds\n";
    std::size_t layer = 0;
    for (const graph::Op &op : figures.graph().ops()) {
        while (layers && layer < layers->size() && op.id >= layers->layers[layer].last)
            ++layer;
        const bool inLayer = layers && layer < layers->size() && op.id >= layers->layers[layer].first;
        const std::vector<std::size_t> stages = figures.stagesOf(std::span(&op.id, 1));
        const std::optional<std::size_t> stage = stages.empty() ? std::nullopt : std::optional(stages.front());
        const BoxFigures own = figures.of(std::span(&op.id, 1));
        const auto seconds = [&](double value) {
            return figures.timed() ? fmt::format("{:.9g}", value) : std::string();
        };
        text += fmt::format("{},{},{},{},{},{},{:.15g},{:.15g},{},{},{},{},{}\n", csvField(op.name), csvField(op.scope),
                            op.type.name(), inLayer ? csvField(layers->layers[layer].name) : "",
                            stage ? std::to_string(*stage) : "", figures.samplesOf(stage), own.forwardFlops,
                            own.backwardFlops, own.activationBytes, own.parameterBytes, own.parameters,
                            seconds(own.forwardSeconds), seconds(own.backwardSeconds));
    }
    return text;
}

} // namespace planloom::ui
