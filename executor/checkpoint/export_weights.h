// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "executor/checkpoint/manifest.h"

#include <string>

namespace planloom::checkpoint {

/// Writes the parameters and states of a checkpoint, each whole and under its own name, as one safetensors file that
/// other programs read; numbers that are float32 become @p type, which is F32 or BF16 (rounded to nearest). Optimizer
/// states stay behind. Needs memory for all of it. Errors: those of restore() and of writing.
Status exportWeights(const Manifest &manifest, const std::string &path, graph::DType type);

} // namespace planloom::checkpoint
