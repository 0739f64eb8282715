// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/setup.h"

#include <string>
#include <string_view>

namespace planloom::import {

/// Another program's configuration of a training: arguments of Megatron-LM (a file of them, or a script that has them),
/// DeepSpeed's JSON, torchtitan's TOML; the contents decide which of them. Errors: those of reading, BadInput
/// with file, line, key and fix.
Result<plan::Setup> loadSetup(const std::string &path);

// The readers themselves, on bytes, for tests and fuzzing. @p name is used in errors.
Result<plan::Setup> readSetup(std::string_view text, const std::string &name);
Result<plan::Setup> readMegatronArguments(std::string_view text, const std::string &name);
Result<plan::Setup> readDeepSpeedConfig(std::string_view text, const std::string &name);
Result<plan::Setup> readTorchtitanConfig(std::string_view text, const std::string &name);

} // namespace planloom::import
