// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace planloom {

enum class LogLevel { Debug, Info, Warning, Error };

/// Writes one line to stderr (`planloom: warning: ...`), thread-safe. Info and Debug appear only when asked for.
void log(LogLevel level, std::string_view message);

/// What is written from now on; the default is Warning. PLANLOOM_LOG=debug|info|warning|error overrides it.
void setLogLevel(LogLevel level);

} // namespace planloom
