// SPDX-License-Identifier: Apache-2.0
#include "engine/trace/ring.h"

#include <algorithm>
#include <bit>

namespace planloom::trace {

Ring::Ring(std::size_t capacity)
    : m_mask(std::bit_ceil(std::max<std::size_t>(capacity, 1)) - 1),
      m_records(std::make_unique<Record[]>(m_mask + 1))
{
}

void Ring::write(const Record &record) noexcept
{
    const std::size_t head = m_head.load(std::memory_order_relaxed);
    if (head - m_tail.load(std::memory_order_acquire) > m_mask) {
        m_dropped.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    m_records[head & m_mask] = record;
    m_head.store(head + 1, std::memory_order_release);
}

std::size_t Ring::drain(std::vector<Record> &out, std::size_t limit)
{
    const std::size_t tail = m_tail.load(std::memory_order_relaxed);
    const std::size_t count = std::min(m_head.load(std::memory_order_acquire) - tail, limit);
    out.reserve(out.size() + count);
    for (std::size_t i = 0; i < count; ++i)
        out.push_back(m_records[(tail + i) & m_mask]);
    m_tail.store(tail + count, std::memory_order_release);
    return count;
}

} // namespace planloom::trace
