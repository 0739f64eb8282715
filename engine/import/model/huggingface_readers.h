// SPDX-License-Identifier: Apache-2.0
// What the families of Hugging Face's transformers read alike. For .cpp files of this folder only.
#pragma once

#include "engine/graph/zoo/zoo.h"
#include "engine/import/model/huggingface_fields.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace planloom::import::huggingface {

/// More than any model has; keeps a hostile file from asking for an endless graph.
constexpr std::int64_t kMostLayers = 2000;
constexpr std::int64_t kMostWidth = 1 << 22;
constexpr std::int64_t kMostHeadSize = 1 << 16;

std::int64_t width(ModelFields &fields, const char *key);

/// An activation by transformers' name; one that is not built is refused.
graph::Activation activation(ModelFields &fields, const char *key);
/// The same for @p name, which @p key says among other things.
graph::Activation activationNamed(ModelFields &fields, const char *key, const std::string &name);

/// Tokens of a sample of a model with @p most positions: @p sequence, or all of them where that is 0. More than these
/// are an error of the field @p positions.
std::int64_t checkedSequence(ModelFields &fields, const char *positions, std::int64_t most, std::int64_t sequence);

/// The window of attention that the configuration gives to some layers.
std::optional<std::int64_t> slidingWindow(ModelFields &fields, bool always);

/// Tokens of a sample: those asked for, else as many as max_position_embeddings says, up to 4,096 (longer samples are a
/// choice of training). A window of attention is not built, and makes no difference for samples that are not longer.
std::int64_t decoderSequence(ModelFields &fields, std::optional<std::int64_t> window, std::int64_t sequence);

/// Fields of rotary positions.
struct RotationKeys {
    const char *theta = "rope_theta";
    const char *part = nullptr; ///< of the share of a head's elements that turns; null: all do
};

/// Rotary positions of one head.
struct Rotation {
    double theta = 10000;
    std::vector<double> frequencies; ///< of the pairs that turn; empty: theta^(-2i / headSize), all turn
};

/// theta, share and rope_scaling, or rope_parameters, which holds all of them.
Rotation readRotation(ModelFields &fields, std::int64_t headSize, const RotationKeys &keys = {});

} // namespace planloom::import::huggingface
