// SPDX-License-Identifier: Apache-2.0
#include "engine/base/log.h"

#include <cstdlib>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace planloom {
namespace {

spdlog::level::level_enum spdLevel(LogLevel level)
{
    switch (level) {
    case LogLevel::Debug: return spdlog::level::debug;
    case LogLevel::Info: return spdlog::level::info;
    case LogLevel::Warning: return spdlog::level::warn;
    case LogLevel::Error: return spdlog::level::err;
    }
    return spdlog::level::warn;
}

spdlog::logger &logger()
{
    static const auto instance = [] {
        auto made = spdlog::stderr_logger_mt("planloom");
        made->set_pattern("planloom: %l: %v");
        const char *asked = std::getenv("PLANLOOM_LOG");
        made->set_level(asked ? spdlog::level::from_str(asked) : spdlog::level::warn);
        return made;
    }();
    return *instance;
}

} // namespace

void log(LogLevel level, std::string_view message) { logger().log(spdLevel(level), message); }

} // namespace planloom
