// SPDX-License-Identifier: Apache-2.0
#include "app/planloom/verbs.h"
#include "engine/import/import.h"
#include "executor/agent/agent.h"

namespace planloom::cli {

int worker(const WorkerOptions &options)
{
    return agent::runWorkerProcess(options.runDir, options.agent, import::withFirstValues);
}

} // namespace planloom::cli
