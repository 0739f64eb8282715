// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <vector>

namespace planloom::admm {

/// When a parameter server may make a new version of the parameters (partial barrier and bounded delay, Zhang and Kwok,
/// ICML 2014): every worker has been heard once, `barrier` of them since the last version, and no other worker is
/// `delay` versions late.
class PartialBarrier {
public:
    PartialBarrier(int workers, int barrier, int delay);

    /// Error: BadInput, no such worker, or it has arrived already and waits for its answer.
    Status arrive(int worker);
    [[nodiscard]] bool mayAdvance() const;
    /// Starts the next version; the workers that are answered, in order. Only if mayAdvance().
    std::vector<int> advance();
    /// Workers that the next version waits for and that have not arrived: never heard, or `delay` versions late.
    [[nodiscard]] std::vector<int> waitedFor() const;
    /// By worker: versions since it was last answered.
    [[nodiscard]] const std::vector<int> &ages() const { return m_ages; }
    /// Since the last version.
    [[nodiscard]] bool hasArrived(int worker) const { return m_arrived[static_cast<std::size_t>(worker)]; }

private:
    int m_barrier;
    int m_delay;
    std::vector<int> m_ages;
    std::vector<bool> m_heard;   ///< ever
    std::vector<bool> m_arrived; ///< since the last version
};

} // namespace planloom::admm
