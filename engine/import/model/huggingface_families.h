// SPDX-License-Identifier: Apache-2.0
// The families of Hugging Face's transformers that are built in. For .cpp files of this folder only.
#pragma once

#include "engine/graph/graph.h"
#include "engine/import/model/huggingface_fields.h"

#include <span>
#include <string_view>

namespace planloom::import {

/// A family: what its config.json may say, and how the model is built from it.
struct ModelFamily {
    const char *type;                  ///< `model_type`
    const char *architecture;          ///< the entry of `architectures` that is built
    std::span<const FieldRule> fields; ///< of this family
    std::span<const FieldRule> shared; ///< of families of its kind; `fields` stands before it
    /// @p sequence: tokens of a sample, 0: the model's own. After fields.check().
    Result<graph::Graph> (*build)(ModelFields &fields, std::int64_t sequence);
};

/// All of them, sorted by type.
std::span<const ModelFamily> modelFamilies();

/// Why a model type is not built; empty for one that is not known.
std::string_view whyNotBuilt(std::string_view type);

namespace huggingface {
std::span<const ModelFamily> classicFamilies();
std::span<const ModelFamily> decoderFamilies();
std::span<const ModelFamily> encoderDecoderFamilies();
} // namespace huggingface

} // namespace planloom::import
