// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/agent.h"

#include "app/planloom/sources.h"
#include "app/planloom/verbs.h"

#include <filesystem>
#include <string>

namespace planloom::cli {

int agent(const AgentOptions &options)
{
    return agent::runAgent({absolutePath(options.socket), absolutePath(options.root), options.exitWithParent});
}

} // namespace planloom::cli
