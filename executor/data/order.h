// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace planloom::data {

/// Which sample stands where. A pure function of (samples, seed, held-out share): no state, no memory, so every rank of
/// every layout asks for any position and gets the same answer. Each epoch goes through all training samples once, in
/// its own order; a global batch may straddle two epochs.
class SampleOrder {
public:
    /// @p holdout in [0, 1): the share of the samples that is never trained on (at least one sample is trained on).
    SampleOrder(std::int64_t samples, std::int64_t seed, double holdout);

    /// From step @p step on go on behind the first @p samples, whatever the global batch was until then.
    void goOn(std::int64_t step, std::int64_t globalBatch, std::int64_t samples)
    {
        m_ahead = samples - step * globalBatch;
    }

    /// Every epoch goes through the samples in the order of the first one.
    void repeatFirstEpoch() { m_repeats = true; }

    [[nodiscard]] std::int64_t trained() const { return m_trained; }
    [[nodiscard]] std::int64_t heldOut() const { return m_samples - m_trained; }
    /// How many samples are consumed when @p steps steps are done.
    [[nodiscard]] std::int64_t consumed(std::int64_t steps, std::int64_t globalBatch) const
    {
        return steps * globalBatch + m_ahead;
    }
    /// Where @p position of the global batch of @p step stands in the sequence of all: the same sample at the same
    /// place.
    [[nodiscard]] std::int64_t ordinal(std::int64_t step, std::int64_t globalBatch, std::int64_t position) const
    {
        const std::int64_t place = consumed(step, globalBatch) + position;
        return m_repeats ? place % m_trained : place;
    }
    /// The sample at @p position of the global batch of @p step (from 0).
    [[nodiscard]] std::int64_t sampleIndex(std::int64_t step, std::int64_t globalBatch, std::int64_t position) const;
    /// The @p i-th held-out sample.
    [[nodiscard]] std::int64_t heldOutIndex(std::int64_t i) const;

private:
    std::int64_t m_samples;
    std::int64_t m_trained;
    std::uint64_t m_seed;
    bool m_repeats = false;
    std::int64_t m_ahead =
        0; ///< samples consumed beyond those of the steps, had their batch always been the present one; may be negative
};

/// The @p i-th element of a pseudo-random order of 0..n-1 chosen by @p key: a Feistel network of the next power of
/// four, walked until it lands below n (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002, §3). Expected
/// cost: under 4 walks of 6 rounds.
std::int64_t permuted(std::int64_t i, std::int64_t n, std::uint64_t key);

} // namespace planloom::data
