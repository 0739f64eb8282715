// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/agent.h"

#include "app/planloom/verbs.h"

#include <filesystem>
#include <string>

namespace planloom::cli {

namespace {

std::string absolute(const std::string &path)
{
    std::error_code unknown; // the folder we are in may be gone
    return path.empty() ? path : std::filesystem::absolute(path, unknown).lexically_normal().string();
}

} // namespace

int agent(const AgentOptions &options) { return agent::runAgent({absolute(options.socket), absolute(options.root), options.exitWithParent}); }

} // namespace planloom::cli
