// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace planloom {

enum class LogLevel { Debug, Info, Warning, Error };

/// Writes one line to stderr (`planloom: warning: ...`), thread-safe. Lines below Warning appear only where the
/// environment variable PLANLOOM_LOG=debug|info|warning|error asks for them.
void log(LogLevel level, std::string_view message);

} // namespace planloom
