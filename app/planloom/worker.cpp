// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/verbs.h"
#include "executor/agent/agent.h"

namespace planloom::cli {

int worker(const WorkerOptions &options) { return agent::runWorkerProcess(options.runDir, options.agent); }

} // namespace planloom::cli
