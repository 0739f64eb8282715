// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/resumption.h"

#include "executor/checkpoint/lease.h"
#include "executor/checkpoint/restore.h"

#include <fmt/format.h>

namespace planloom::agent {

Result<std::int64_t> takeLease(const std::string &folder, const run::Settings &settings, const std::string &owner)
{
    if (settings.checkpointEvery == 0)
        return std::int64_t{0};
    const auto lease = checkpoint::Lease::acquire(folder, owner);
    if (!lease)
        return lease.error();
    return lease->epoch();
}

Result<run::Beginning> newestBeginning(const std::string &folder, const run::Settings &settings,
                                       std::vector<std::string> &skipped)
{
    run::Beginning from;
    const auto newest = checkpoint::newestCheckpoint(folder, &skipped);
    if (!newest && newest.error().code != ErrorCode::NotFound)
        return newest.error();
    if (!newest)
        return from;
    if (newest->state.seed != settings.seed)
        return badInput(fmt::format("the run was begun with seed {}, not {}; resume it with the same",
                                    newest->state.seed, settings.seed))
            .in(newest->folder);
    from.step = newest->state.step;
    from.sample = newest->state.samples;
    from.checkpoint = newest->folder;
    return from;
}

} // namespace planloom::agent
