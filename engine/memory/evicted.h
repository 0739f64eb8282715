// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/memory/copy_times.h"
#include "engine/memory/stream.h"

#include <cstdint>
#include <vector>

namespace planloom::memory {

/// What has been dropped and can be made again, and what that would cost around a storage (Kirisame et al., DTR, 2021,
/// §3 and §4.1).
class Evicted {
public:
    /// Hosted storages are gone at first: an operator that runs again waits for their copies.
    Evicted(const Stream &stream, const CopyTimes &copies);

    /// @p storage is dropped: `gone`; wanted later: `evicted` as well, else it is dead.
    void drop(std::int32_t storage, bool evicted);
    void restore(std::int32_t storage);

    /// Seconds of the operator that makes @p storage.
    [[nodiscard]] double ownSeconds(std::int32_t storage) const;
    /// That, and of the copies of gone hosted storages that the operator reads.
    [[nodiscard]] double secondsAgain(std::int32_t storage) const;
    /// Of the operators that must run again before it: those of gone ancestors, each once, with their copies.
    [[nodiscard]] double ancestorSeconds(std::int32_t storage);
    /// Of those and of evicted descendants.
    [[nodiscard]] double neighbourSeconds(std::int32_t storage);
    /// Sums of the classes of evicted storages that touch it: an upper bound that costs O(neighbours).
    [[nodiscard]] double classSeconds(std::int32_t storage);

private:
    [[nodiscard]] double secondsOf(std::int32_t op) const;
    double above(std::int32_t storage);
    double below(std::int32_t storage);
    std::int32_t rootOf(std::int32_t node);
    template <class Visit>
    void eachNeighbour(std::int32_t storage, const Visit &visit) const;

    const Stream &m_stream;
    CopyTimes m_copies;
    std::vector<std::vector<std::int32_t>> m_children; ///< made from it
    std::vector<bool> m_gone, m_evicted;
    std::vector<std::int32_t> m_seen; ///< per operator: the last search that counted it
    std::int32_t m_search = 0;
    std::vector<std::int32_t> m_stack;
    std::vector<std::int32_t> m_node;   ///< of an evicted storage, in the union-find forest
    std::vector<std::int32_t> m_parent; ///< per node
    std::vector<double> m_sum;          ///< of a class, at its root
};

} // namespace planloom::memory
