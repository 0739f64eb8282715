// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/planloom/output.h"
#include "engine/base/result.h"

#include <string>

namespace planloom::cli {

/// True if the file @p path is a pickle, by its name or its first bytes.
bool isMemorySnapshot(const std::string &path);
/// Describes a memory snapshot of PyTorch: memory of each device, and what was in use at its peak by line of the
/// program.
Status inspectMemory(const std::string &path, Output &output);

} // namespace planloom::cli
