// SPDX-License-Identifier: Apache-2.0
#include "executor/device/plugin/host_work.h"

#include "engine/base/backoff.h"
#include "executor/device/plugin/translate.h"

#include <omp.h>

namespace planloom::device {

HostWork::~HostWork()
{
    if (m_free != nullptr)
        m_table.destroyEvent(m_free);
    for (const auto &[data, bytes] : m_blocks)
        m_table.release(m_device, static_cast<std::int32_t>(Space::Host), data, bytes);
}

Status HostWork::reserve(std::int64_t bytes, const std::string &what)
{
    const std::scoped_lock lock(m_mutex);
    ++m_listed[what];
    PlanloomError why{};
    if (m_free == nullptr) {
        m_free = m_table.makeEvent(m_device, &why);
        if (m_free == nullptr)
            return errorOf(why);
        m_threads = omp_get_max_threads();
    }
    const std::int64_t size = m_blocks.empty() ? 0 : m_blocks.back().second;
    if (bytes <= size)
        return {};
    // Work under way keeps the block that it has. Twice the size: all blocks together are at most twice the last.
    const std::int64_t larger = std::max(bytes, 2 * size);
    void *data = m_table.allocate(m_device, static_cast<std::int32_t>(Space::Host), larger, &why);
    if (data == nullptr)
        return errorOf(why);
    m_blocks.emplace_back(static_cast<std::byte *>(data), larger);
    return {};
}

void HostWork::give(PlanloomQueue *queue, const Task &task, std::span<const StagedRange> ranges)
{
    for (Backoff backoff; m_given - m_done.load(std::memory_order_acquire) >= kMostPending; backoff.pause()) {
        PlanloomError why{};
        if (m_table.poll(m_free, &why) < 0)
            return; // the device has stopped: its error is that of every event from now on
    }
    Slot &slot = m_slots[m_given++ % kMostPending];
    slot = {this, task, m_blocks.back().first};
    m_table.wait(queue, m_free);
    for (const StagedRange &range : ranges)
        if (range.reads && range.device != nullptr && range.bytes > 0)
            m_table.copyToHost(queue, slot.staging + range.offset, range.device, range.bytes);
    m_table.call(queue, runSlot, &slot);
    for (const StagedRange &range : ranges)
        if (range.writes && range.device != nullptr && range.bytes > 0)
            m_table.copyToDevice(queue, range.device, slot.staging + range.offset, range.bytes);
    m_table.record(queue, m_free);
}

void HostWork::runSlot(void *slot)
{
    auto &own = *static_cast<Slot *>(slot);
    HostWork &owner = *own.owner;
    omp_set_num_threads(owner.m_threads);
    own.task.work(own.task, own.staging);
    owner.m_done.fetch_add(1, std::memory_order_release);
}

std::map<std::string, std::int64_t> HostWork::listed() const
{
    const std::scoped_lock lock(m_mutex);
    return m_listed;
}

} // namespace planloom::device
