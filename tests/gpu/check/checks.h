// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "executor/device/plugin/plugin_device.h"
#include "gpu/check/report.h"

#include <functional>
#include <string>
#include <vector>

namespace planloom::check {

/// Told what comes next.
using Say = std::function<void(const std::string &)>;

/// Compares all operators that tests know, with their gradients. Seconds.
std::vector<OperatorRow> checkOperators(device::PluginDevice &gpu, const Say &say);

/// Trains models for 5 steps: small ones or, if @p full, GPT-2, BERT-base, ResNet-50 and the LSTM as they are.
std::vector<ModelRow> checkModels(device::PluginDevice &gpu, bool full, const Say &say);

/// What is timed: a model, samples of a step and of a micro-batch, "fp32" or "bf16".
struct Timed {
    std::string model;
    std::int64_t batch = 1;
    std::int64_t microBatch = 1;
    std::string precision = "fp32";
};
/// Of "zoo:gpt2,64,8,bf16". Error: BadInput.
Result<Timed> timedOf(const std::string &text);

/// Times steps on GPU @p index and predicts them from a profile of it; @p python: the command for PyTorch's steps of
/// the same model, empty: none.
StepRow timeSteps(int index, const Timed &what, const std::string &python, const Say &say);

/// The version of PyTorch with a GPU behind @p python. Error: NotFound, why there is none.
Result<std::string> peerOf(const std::string &python);

} // namespace planloom::check
