// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan/training.h"
#include "executor/runtime/compute_context.h"
#include "executor/runtime/update_norms.h"

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace planloom::runtime {

/// How this step updates parameters.
struct Update {
    std::int64_t step = 0;   ///< from 0
    double learningRate = 0; ///< of this step, before the groups' factors
    double gradientScale = 1;
    double ownScale = 1;    ///< further factor of gradients that are of this replica's samples alone
    int phase = 0;          ///< of the rule's formula
    BucketId bucket = {};   ///< this one alone; none: all that have no update of their own
    std::int32_t part = -1; ///< of Rank::hostedParts, this one alone; -1: none
};

/// The optimizer of one stage replica. Thread contract: one thread.
class Updater {
public:
    /// @p norms must outlive it. Errors: BadInput, if the body was made for another rule; those of Device::allocate and
    /// makeUpdates.
    static Result<Updater> create(const program::Program &program, const program::Body &body,
                                  const ComputeContext &context, const plan::Optimizer &how, const UpdateNorms &norms);

    /// Gives a phase of the step to the queue. Between two phases, the norms are summed up over all ranks.
    void update(const Update &update);
    /// Buckets with an update of their own (program::Update::bucket): the gradients of @p bucket, if it is one here,
    /// are those of @p step, summed up.
    void summed(BucketId bucket, std::int64_t step);
    /// Their step, if they wait for an update: once.
    [[nodiscard]] std::optional<std::int64_t> takeSummed(BucketId bucket);
    [[nodiscard]] std::vector<BucketId> ownUpdates() const;
    /// All phases, on a rank that trains alone; waits for the device between two. Errors: those of drain().
    Status updateAlone(Update update);
    /// The squared gradients that this rank answers for, summed up; waits for the device. Errors: those of drain().
    Result<double> squaredGradientNorm();

private:
    Updater(const ComputeContext &context, const UpdateNorms &norms, int phases)
        : m_context(context),
          m_norms(&norms),
          m_phases(phases)
    {
    }

    ComputeContext m_context;
    const UpdateNorms *m_norms;
    int m_phases;
    std::unique_ptr<device::Updates> m_updates;
    std::unique_ptr<device::Updates> m_averaged; ///< parameters that replicas average; null: none
    struct OwnUpdate {
        std::unique_ptr<device::Updates> updates;
        std::optional<std::int64_t> summedIn; ///< step
    };
    std::map<BucketId, OwnUpdate> m_own;
    std::map<std::int32_t, std::unique_ptr<device::Updates>>
        m_parts;                                ///< of parameters on the host; others do not train
    std::unique_ptr<device::Updates> m_counted; ///< those that no other rank counts
    device::Memory m_norm;
    std::unique_ptr<device::Event> m_event;
};

} // namespace planloom::runtime
