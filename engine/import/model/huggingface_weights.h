// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/import/import.h"

#include <string>

namespace planloom::import {

/// Lets @p model's parameters start from model.safetensors, or from the files of model.safetensors.index.json, where @p
/// folder has one of them; without either the model stays as it is. Names are Hugging Face's, with or without the base
/// model's prefix ("transformer.", "model.", "bert.", "gpt_neox.", "vit."); tensors are converted to the parameters'
/// type when training starts. Only headers are read here. Tensors in the files beyond the model become a warning.
/// Errors: BadInput (a parameter is missing or has other sizes; damage, naming the file), Unsupported (a number
/// format).
Result<Model> withWeightsBeside(Model model, const std::string &folder);

} // namespace planloom::import
