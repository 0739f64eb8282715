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
    void merge(const program::Merge &task, std::int64_t step);

    /// True if any parameters are averaged, on whatever rank.
    [[nodiscard]] bool any() const { return m_anyMerge != nullptr; }
    /// True if an average is merged in @p step, on whatever rank.
    [[nodiscard]] bool mergesIn(std::int64_t step) const;
    /// This rank's part of the squared consensus distance (run::StepMetrics) of the averages that were merged before
    /// @p step, since the last call; these steps have ended, and at most one more. Over all ranks the parts add up to
    /// it. It is the difference of the snapshots' and the averages' squared norms, taken in double precision of float
    /// values: what is below about 1e-5 of the parameters' norm is noise. NaN: the snapshots were taken before a
    /// checkpoint from which the run goes on.
    [[nodiscard]] double takeSquaredDistance(std::int64_t step);

    /// Collective, between steps: until putBack() the parameters are the mean over the replicas, weighted by their
    /// shares of the samples. Takes memory beside the arena from then on, as much as the averaged parameters. Errors:
    /// Failed (communication, memory, the device).
    Status useMean(RankCollectives &collectives);
    void putBack();

private:
    /// Squared, of a snapshot and of the sum of all replicas' ones.
    struct Norms {
        double snapshot = 0;
        double sum = 0;
    };
    static constexpr std::int64_t kKept = 4; ///< snapshots may be taken in two steps before a merge is asked for
    struct Merged {
        std::int64_t step = 0;
        std::int64_t snapshot = 0; ///< its number, from 0; -1: taken before the run went on from a checkpoint
    };
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
        std::unique_ptr<device::Updates> counted;  ///< gradient: averages that no other rank of the replica counts
        device::Memory norms;                      ///< Norms on the host, of the last kKept snapshots in turn
        std::int64_t taken = 0;                    ///< snapshots
        std::vector<Merged> merges;                ///< since takeSquaredDistance()
        std::unique_ptr<device::Updates> merge;    ///< gradient: the sum; clears it
        std::unique_ptr<device::Updates> assign;   ///< parameter = scale * gradient
        std::unique_ptr<device::Updates> weigh[2]; ///< of averages, of gradients: parameter = weight * parameter
        device::Memory own; ///< parameters of the replica while the mean is used; null: never was
    };

    Status add(const program::Merge &task);
    static Norms &norms(const Member &member, std::int64_t snapshot);
    Status addNorms(const program::Bucket &bucket, Member &member);
    [[nodiscard]] bool countsHere(std::string_view parameter) const;
    [[nodiscard]] double shareOf(const program::Bucket &bucket) const;
    void weigh(Member &member, bool gradients);
    [[nodiscard]] device::Queue &queue() { return m_parts->queue(program::Lane::Compute); }
    Member &member(BucketId bucket) { return m_members.at(bucket); }

    RankParts *m_parts = nullptr;
    std::map<BucketId, Member> m_members;
    const program::Task *m_anyMerge = nullptr; ///< null: nothing is averaged
};

} // namespace planloom::runtime
