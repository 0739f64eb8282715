// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace planloom::memory {

/// Gives out blocks of one range of addresses: the smallest hole that is large enough, the lowest of equal ones. Holes
/// that touch become one. Cost of each call: O(log holes).
class BlockPool {
public:
    static constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max() / 4;
    static constexpr std::int64_t kNone = -1;

    explicit BlockPool(std::int64_t capacity = kEndless) { insert(0, capacity); }

    /// The offset of a block; kNone: no hole is large enough. Blocks of 0 bytes lie at 0.
    std::int64_t take(std::int64_t bytes);
    /// Takes [@p offset, @p offset + @p bytes); false: something lies there, or that is not in the range.
    bool takeAt(std::int64_t offset, std::int64_t bytes);
    /// Whether take() would find a block.
    [[nodiscard]] bool hasHole(std::int64_t bytes) const
    {
        return bytes <= 0 || m_holesBySize.lower_bound({bytes, 0}) != m_holesBySize.end();
    }
    void give(std::int64_t offset, std::int64_t bytes);

    [[nodiscard]] std::int64_t used() const { return m_used; }
    /// The end of the furthest block so far.
    [[nodiscard]] std::int64_t furthest() const { return m_furthest; }

private:
    void insert(std::int64_t offset, std::int64_t bytes);
    void erase(std::int64_t offset, std::int64_t bytes);

    std::map<std::int64_t, std::int64_t> m_holes;                  ///< bytes by offset
    std::set<std::pair<std::int64_t, std::int64_t>> m_holesBySize; ///< bytes, offset
    std::int64_t m_used = 0;
    std::int64_t m_furthest = 0;
};

} // namespace planloom::memory
