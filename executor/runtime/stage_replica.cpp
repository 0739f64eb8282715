// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/stage_replica.h"

namespace planloom::runtime {

Result<StageReplica> StageReplica::create(const program::Program &program, const program::Body &body,
                                          const ComputeContext &context, const StageSetup &setup)
{
    auto runner = StageRunner::create(program, body, context, setup.feed, setup.seed);
    if (!runner)
        return runner.error();
    if (const Status status = initializeBody(body, context, setup.subject, setup.seed, setup.modelFolder); !status)
        return status.error();
    auto updater = Updater::create(program, body, context, setup.optimizer, setup.norms);
    if (!updater)
        return updater.error();
    auto scorer = Scorer::create(body, context);
    if (!scorer)
        return scorer.error();
    return StageReplica{std::move(*runner), std::move(*updater), std::move(*scorer)};
}

} // namespace planloom::runtime
