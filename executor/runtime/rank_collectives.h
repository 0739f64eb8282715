// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/rank_parts.h"

#include <vector>

namespace planloom::runtime {

/// A rank's part in the collectives of its Program: communicating operators, and the exchange of gradients and
/// parameters. Thread contract: one thread.
class RankCollectives {
public:
    /// Collective: all ranks call it. Errors: those of makeGroup.
    Status prepare(RankParts &parts);

    /// Starts a task with payload Boxing or Exchange. Error: Failed.
    Result<comm::Request> start(const program::Task &task);
    /// True once it is done, @p request being what start() returned. Error: Failed.
    Result<bool> test(const program::Task &task, comm::Request &request);
    /// Enqueues the rest of the work on the compute lane's queue once the collective has ended.
    void ended(const program::Task &task);

    [[nodiscard]] comm::Group group(TeamId team) const { return m_groups[team.index()]; }

    /// Adds up the accumulators of @p bucket over its team, and waits for it.
    Status sumGradientsNow(BucketId bucket);
    /// Executes communicating operator @p op of @p body for micro-batch 0's forward pass, on @p what, and waits for it.
    Status boxNow(BodyId body, std::int32_t op, const Communication &what);

private:
    void expect(const program::Task &task);
    Result<comm::Request> exchange(const program::Exchange &task);
    Result<comm::Request> box(const program::Boxing &boxing, const Communication &what);
    Status serve(const Communication &what);
    Status intoPlace(const Communication &what);

    RankParts *m_parts = nullptr;
    std::vector<comm::Group> m_groups; ///< per team
};

} // namespace planloom::runtime
