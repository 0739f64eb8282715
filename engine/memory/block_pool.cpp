// SPDX-License-Identifier: Apache-2.0
#include "engine/memory/block_pool.h"

#include <algorithm>
#include <iterator>

namespace planloom::memory {

void BlockPool::insert(std::int64_t offset, std::int64_t bytes)
{
    if (bytes <= 0)
        return;
    m_holes.emplace(offset, bytes);
    m_holesBySize.emplace(bytes, offset);
}

void BlockPool::erase(std::int64_t offset, std::int64_t bytes)
{
    m_holes.erase(offset);
    m_holesBySize.erase({bytes, offset});
}

std::int64_t BlockPool::take(std::int64_t bytes)
{
    if (bytes <= 0)
        return 0;
    const auto found = m_holesBySize.lower_bound({bytes, 0});
    if (found == m_holesBySize.end())
        return kNone;
    const auto [size, offset] = *found;
    erase(offset, size);
    insert(offset + bytes, size - bytes);
    m_used += bytes;
    m_furthest = std::max(m_furthest, offset + bytes);
    return offset;
}

bool BlockPool::takeAt(std::int64_t offset, std::int64_t bytes)
{
    if (bytes <= 0)
        return true;
    const auto behind = m_holes.upper_bound(offset);
    if (behind == m_holes.begin())
        return false;
    const auto [begin, size] = *std::prev(behind);
    if (offset + bytes > begin + size)
        return false;
    erase(begin, size);
    insert(begin, offset - begin);
    insert(offset + bytes, begin + size - offset - bytes);
    m_used += bytes;
    m_furthest = std::max(m_furthest, offset + bytes);
    return true;
}

void BlockPool::give(std::int64_t offset, std::int64_t bytes)
{
    if (bytes <= 0)
        return;
    m_used -= bytes;
    std::int64_t begin = offset;
    std::int64_t end = offset + bytes;
    const auto behind = m_holes.lower_bound(offset);
    if (behind != m_holes.begin()) {
        const auto [before, size] = *std::prev(behind);
        if (before + size == begin) {
            begin = before;
            erase(before, size);
        }
    }
    if (const auto next = m_holes.find(end); next != m_holes.end()) {
        const std::int64_t size = next->second;
        erase(end, size);
        end += size;
    }
    insert(begin, end - begin);
}

} // namespace planloom::memory
