// SPDX-License-Identifier: Apache-2.0
#include "engine/import/model/huggingface_readers.h"

#include "engine/base/json_reader.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <numbers>

namespace planloom::import::huggingface {
namespace {

/// Tokens of a sample where the configuration allows more and none are asked for.
constexpr std::int64_t kLongestSample = 4096;

constexpr std::int64_t kMostListed = 4096; ///< elements of a head with a list of frequencies, which every layer holds

/// Frequencies of a scaled rotation, of those that theta alone makes (Dubey et al., The Llama 3 Herd of Models, 2024;
/// transformers' _compute_llama3_parameters): high ones stay, low ones are divided by a factor, the others lie between.
struct Llama3Scaling {
    double factor, low, high, positions;

    [[nodiscard]] double operator()(double frequency) const
    {
        const double wavelength = 2 * std::numbers::pi / frequency;
        if (wavelength < positions / high)
            return frequency;
        if (wavelength > positions / low)
            return frequency / factor;
        const double smooth = (positions / wavelength - low) / (high - low);
        return (1 - smooth) * frequency / factor + smooth * frequency;
    }
};

double positiveNumber(JsonReader &reader, const char *key)
{
    const double value = reader.number(key);
    if (!(value > 0))
        reader.fail(key, "must be positive");
    return value;
}

using FrequencyScale = std::function<double(double)>;

/// How rope_scaling, or rope_parameters, changes each frequency; empty: not at all.
FrequencyScale readScale(ModelFields &fields, JsonReader &scaling, const char *key)
{
    const std::string type = scaling.text("rope_type", scaling.text("type", "default"));
    if (type == "linear") {
        const double factor = positiveNumber(scaling, "factor");
        return [factor](double frequency) { return frequency / factor; };
    }
    if (type == "llama3") {
        const Llama3Scaling llama3{positiveNumber(scaling, "factor"), positiveNumber(scaling, "low_freq_factor"),
                                   positiveNumber(scaling, "high_freq_factor"),
                                   positiveNumber(scaling, "original_max_position_embeddings")};
        if (!(llama3.high > llama3.low))
            scaling.fail("high_freq_factor", "must be greater than low_freq_factor");
        return llama3;
    }
    if (type != "default" && type != "dynamic") // dynamic: only beyond max_position_embeddings
        fields.refuse(key,
                      fmt::format("is of type {}, which is not built; default, linear, llama3 and dynamic are, export "
                                  "the model to ONNX",
                                  type));
    return {};
}

/// As transformers rounds it.
std::int64_t turnedElements(ModelFields &fields, std::int64_t headSize, double part, const char *key)
{
    const auto turned = static_cast<std::int64_t>(static_cast<double>(headSize) * std::min(part, 2.0));
    if (turned < 2 || turned > headSize || turned % 2 != 0)
        fields.fail(
            key, fmt::format("turns {} of a head's {} elements; an even number of them is needed", turned, headSize));
    return turned;
}

} // namespace

std::int64_t width(ModelFields &fields, const char *key) { return fields.integer(key, 1, kMostWidth); }

graph::Activation activation(ModelFields &fields, const char *key)
{
    return activationNamed(fields, key, fields.text(key));
}

graph::Activation activationNamed(ModelFields &fields, const char *key, const std::string &name)
{
    using graph::Activation;
    static const std::map<std::string, Activation, std::less<>> known = {
        {"gelu", Activation::Gelu},
        {"gelu_fast", Activation::GeluTanh},
        {"gelu_new", Activation::GeluTanh},
        {"gelu_python", Activation::Gelu},
        {"gelu_pytorch_tanh", Activation::GeluTanh},
        {"relu", Activation::Relu},
        {"silu", Activation::Silu},
        {"swish", Activation::Silu},
    };
    const auto found = known.find(name);
    if (found != known.end())
        return found->second;
    fields.refuse(key,
                  fmt::format("is \"{}\", which is not built; gelu, gelu_new, relu and silu are, export others to "
                              "ONNX",
                              name));
    return Activation::Gelu;
}

std::int64_t checkedSequence(ModelFields &fields, const char *positions, std::int64_t most, std::int64_t sequence)
{
    if (sequence > most)
        fields.fail(positions,
                    fmt::format("is {}: samples of {} tokens are longer; give --sequence {} or less", most, sequence,
                                most));
    return sequence > 0 ? sequence : most;
}

std::optional<std::int64_t> slidingWindow(ModelFields &fields, bool always)
{
    constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;
    bool slides = always;
    for (const std::string &type : fields.texts("layer_types")) {
        if (type != "full_attention" && type != "sliding_attention")
            fields.refuse("layer_types", fmt::format("names {}, which is not built; export the model to ONNX", type));
        slides = slides || type == "sliding_attention";
    }
    return slides ? fields.optionalInteger("sliding_window", 1, kMostTokens) : std::nullopt;
}

std::int64_t decoderSequence(ModelFields &fields, std::optional<std::int64_t> window, std::int64_t sequence)
{
    constexpr const char *kPositions = "max_position_embeddings";
    const std::int64_t most = width(fields, kPositions);
    checkedSequence(fields, kPositions, most, sequence);
    if (window && sequence > *window)
        fields.refuse("sliding_window",
                      fmt::format("is {}: samples of {} tokens need windows of attention, which are not built; give "
                                  "--sequence {} or less",
                                  *window, sequence, *window));
    if (sequence > 0)
        return sequence;
    const std::int64_t cut = std::min({most, kLongestSample, window.value_or(most)});
    if (cut < most)
        fields.warn(fmt::format("samples have {} of the {} tokens that the model was made for{}", cut, most,
                                window && cut == *window
                                    ? ", as many as its window of attention: longer ones are not built"
                                    : "; --sequence N makes them longer"));
    return cut;
}

Rotation readRotation(ModelFields &fields, std::int64_t headSize, const RotationKeys &keys)
{
    Rotation rotation;
    rotation.theta = fields.positive(keys.theta);
    double part = keys.part ? fields.positive(keys.part) : 1;
    const char *partKey = keys.part;
    const char *key = "rope_parameters";
    auto scaling = fields.optionalObject(key);
    if (scaling && scaling->has("rope_theta"))
        rotation.theta = positiveNumber(*scaling, "rope_theta");
    if (scaling && scaling->has("partial_rotary_factor")) {
        part = positiveNumber(*scaling, "partial_rotary_factor");
        partKey = key;
        if (!keys.part && part != 1)
            fields.refuse(key,
                          "turns a part of each head, which is not built for this family; export the model to ONNX");
    }
    if (auto old = fields.optionalObject("rope_scaling")) {
        key = "rope_scaling";
        scaling = old;
    }
    const std::int64_t turned = keys.part ? turnedElements(fields, headSize, part, partKey) : headSize;
    if (fields.failed())
        return rotation;
    const FrequencyScale scale = scaling ? readScale(fields, *scaling, key) : FrequencyScale();
    if (fields.failed() || (turned == headSize && !scale))
        return rotation;
    if (headSize > kMostListed) {
        fields.fail(partKey ? partKey : key,
                    fmt::format("changes heads of {} elements; up to {} are built", headSize, kMostListed));
        return rotation;
    }
    for (std::int64_t i = 0; i < turned / 2; ++i) {
        const double frequency = std::pow(rotation.theta, -2.0 * static_cast<double>(i) / static_cast<double>(turned));
        rotation.frequencies.push_back(scale ? scale(frequency) : frequency);
    }
    const auto isNumber = [](double frequency) { return std::isfinite(frequency); };
    if (!std::all_of(rotation.frequencies.begin(), rotation.frequencies.end(), isNumber))
        fields.fail(keys.theta, fmt::format("and {} make a frequency that is no number", key));
    return rotation;
}

} // namespace planloom::import::huggingface
