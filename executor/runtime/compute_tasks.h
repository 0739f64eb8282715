// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/pass_hooks.h"
#include "executor/runtime/rank_communication.h"

namespace planloom::runtime {

/// The tasks of a rank's compute lane: passes, updates, and what tables and averages need of it. Thread contract: one
/// thread.
class ComputeTasks {
public:
    /// What it is given must outlive it.
    ComputeTasks(RankParts &parts, RankCommunication &communication, const ExecutorOptions &options)
        : m_parts(parts),
          m_communication(communication),
          m_options(options)
    {
    }

    /// Gives the work of @p task in @p step to the lane's queue. @p hooks are called between operators. Errors: those
    /// of StageRunner::forward.
    Status run(const program::Task &task, std::int64_t step, PassHooks &hooks);
    /// Before anyone looks at the parameters, which is behind these commands: sums that the next step would have
    /// updated them with.
    void settleSums();

private:
    /// With the figures of the step whose gradients they are; nothing if the bucket has none.
    void updateSummed(StageReplica &stage, BucketId bucket);

    RankParts &m_parts;
    RankCommunication &m_communication;
    const ExecutorOptions &m_options;
};

} // namespace planloom::runtime
