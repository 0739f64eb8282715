// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/dapple/chain.h"

#include <cstddef>
#include <vector>

namespace planloom::planners::dapple {

/// The published latency of a pipeline (DAPPLE §4.1, eq. 1-2) over a chain with its network stages listed. Bubbles
/// inside the pivot are ignored: where the pivot is not the last stage the formula is too small.
struct Latency {
    std::size_t pivot = 0;
    double warmup = 0; ///< T_w
    double steady = 0; ///< T_s
    double ending = 0; ///< T_e
    [[nodiscard]] double total() const { return warmup + steady + ending; }
};

/// The pivot stage (DAPPLE §4.3, eq. 3, Alg. 1). O(stages).
std::size_t pivotOf(const Chain &chain);
Latency formulaLatency(const Chain &chain);

/// Inputs of the released planner's estimator (its src/parallelism/sync_pipeline.rs). All of it
/// for the whole batch on whole-pipeline replica 0.
struct ShippedInput {
    std::int64_t microBatches = 0; ///< M = floor(batch / replicas / per-device micro-batch)
    double pipelines = 1;          ///< whole-pipeline replicas
    double total = 0;              ///< seconds of the batch on one device
    std::vector<double> stage;     ///< seconds of the batch in each stage, over all of its devices
    std::vector<double> cut;       ///< seconds to send each cut's activations of the batch, one way
    std::vector<double> allReduce;
};
/// Seconds of one iteration; infinite where there is no micro-batch.
double shippedSeconds(const ShippedInput &input);

/// Ratio of communication over a boundary to compute of a stage, forward and backward, both averaged (ACR). 0 without a
/// network stage. Entries at odd positions are network stages.
double communicationRatio(const Chain &chain);

/// Seconds of one iteration of the chain by events: equals simulate::iterationSeconds() of the chain as a Program
/// (tests/engine/simulate/chain_program.h), to the bit, in O(entries * micro-batches) without a queue. Warm-up depths
/// must not increase along the chain. Keeps its buffers between calls: one thread at a time.
class ChainClock {
public:
    double seconds(const Chain &chain);

private:
    void forwardsUpTo(const Chain &chain, std::size_t entry, std::int64_t end);
    void backward(const Chain &chain, std::size_t entry, std::int64_t microBatch);

    std::vector<std::vector<double>> m_forwardEnd; ///< [entry][micro-batch]
    std::vector<std::int64_t> m_done;              ///< forwards begun per entry
    std::vector<double> m_lane; ///< end of the entry's last task (full duplex: of its forward direction)
    std::vector<double> m_back; ///< full duplex: end of its backward direction
    double m_gradient = 0;      ///< end of the micro-batch's backward at the entry after
};

/// No order of the chain's tasks ends sooner: each entry's own work, with the shortest way in before it and out after
/// it. A full-duplex entry counts with its busier direction.
double lowerBound(const Chain &chain);

} // namespace planloom::planners::dapple
