// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/agent.h"

#include "app/planloom/verbs.h"

namespace planloom::cli {

int agent(const AgentOptions &options) { return agent::runAgent({options.socket, options.root, options.exitWithParent}); }

} // namespace planloom::cli
