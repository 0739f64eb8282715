// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/rank_collectives.h"
#include "executor/runtime/rank_parts.h"

#include <map>
#include <memory>
#include <vector>

namespace planloom::runtime {

/// A rank's part in delayed averaging (plan::DelayedAveraging): copies of its parameters, which a collective adds up
/// over the replicas, and what becomes of the sum. Thread contract: one thread.
class Averaging {
public:
    /// Of the buckets that tasks of @p parts' rank average; @p parts must outlive it. Errors: those of makeUpdates.
    Status prepare(RankParts &parts);

    /// Gives the work to the compute lane's queue.
    void takeSnapshot(const program::Snapshot &task);
    void merge(const program::Merge &task);

    /// Collective, between steps: until putBack() the parameters are the mean over the replicas, weighted by their
    /// shares of the samples. Takes memory beside the arena meanwhile, as much as the averaged parameters. Errors:
    /// Failed (communication, memory, the device).
    Status useMean(RankCollectives &collectives);
    Status putBack();

private:
    /// A bucket on this rank.
    struct Member {
        std::size_t at = 0;  ///< in its team
        double oneOfAll = 1; ///< 1 / replicas
        double weight = 1;   ///< this replica's share of the samples, times the replicas
        std::byte *parameters = nullptr;
        std::byte *gradients = nullptr;
        std::byte *averages = nullptr;
        std::byte *snapshots = nullptr; ///< null: the merge needs none
        std::int64_t bytes = 0;
        std::unique_ptr<device::Updates> merge;    ///< gradient: the sum; clears it
        std::unique_ptr<device::Updates> assign;   ///< parameter = scale * gradient
        std::unique_ptr<device::Updates> weigh[2]; ///< of averages, of gradients: parameter = weight * parameter
        device::Memory own;                        ///< parameters of the replica, while the mean is used
    };

    Status add(const program::Merge &task);
    [[nodiscard]] double shareOf(const program::Bucket &bucket) const;
    void weigh(Member &member, bool gradients);
    [[nodiscard]] device::Queue &queue() { return m_parts->queue(program::Lane::Compute); }
    Member &member(BucketId bucket) { return m_members.at(bucket); }

    RankParts *m_parts = nullptr;
    std::map<BucketId, Member> m_members;
};

} // namespace planloom::runtime
