// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/import/import.h"

#include <string>
#include <vector>

namespace planloom::import {

/// @p model with a loss: the sum of @p chosen (as lossFromText reads them), or, where that is empty and the model has
/// no loss, what it ends in, which its warnings say; `noLoss` says why there is none. Inputs are added for the targets:
/// `labels` (int64: the output's shape without the classes), `targets` (float32, the output's shape), `mask` (bool, the
/// same); of several losses, OUTPUT.labels and so on. Where a Softmax, LogSoftmax or Sigmoid makes the output, a
/// cross-entropy takes what it is made of. Errors (BadInput): a choice that does not fit, with the outputs there are; a
/// model that has its loss already.
Result<Model> withLoss(Model model, const std::vector<std::string> &chosen);

} // namespace planloom::import
