// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/staged_communicator.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

namespace planloom::runtime {

using comm::Element;
using comm::Group;
using comm::Request;

Result<std::unique_ptr<StagedCommunicator>> StagedCommunicator::create(comm::Communicator &inner,
                                                                       device::PluginDevice &device)
{
    std::unique_ptr<StagedCommunicator> made(new StagedCommunicator(inner, device));
    auto queue = device.makeQueue();
    if (!queue)
        return queue.error();
    made->m_queue = std::move(*queue);
    return made;
}

// --- Calls ----------------------------------------------------------------------------------------------------------

Result<Request> StagedCommunicator::isend(const void *data, std::int64_t bytes, int peer, int tag)
{
    Work how;
    how.count = bytes;
    how.peer = peer;
    how.tag = tag;
    return begin(Kind::Send, {Range{const_cast<void *>(data), bytes, true, false}, Range{}}, how);
}

Result<Request> StagedCommunicator::irecv(void *data, std::int64_t bytes, int peer, int tag)
{
    Work how;
    how.count = bytes;
    how.peer = peer;
    how.tag = tag;
    return begin(Kind::Receive, {Range{data, bytes, false, true}, Range{}}, how);
}

Result<Request> StagedCommunicator::allReduce(Group group, Element element, void *data, std::int64_t count)
{
    Work how;
    how.group = group;
    how.element = element;
    how.count = count;
    return begin(Kind::AllReduce, {Range{data, count * bytesOf(element), true, true}, Range{}}, how);
}

Result<Request> StagedCommunicator::reduceScatter(Group group, Element element, const void *all, void *mine,
                                                  std::int64_t countEach)
{
    Work how;
    how.group = group;
    how.element = element;
    how.count = countEach;
    const std::int64_t each = countEach * bytesOf(element);
    return begin(Kind::ReduceScatter,
                 {Range{const_cast<void *>(all), each * members(group), true, false}, Range{mine, each, false, true}},
                 how);
}

Result<Request> StagedCommunicator::allGather(Group group, const void *mine, void *all, std::int64_t bytesEach)
{
    Work how;
    how.group = group;
    how.count = bytesEach;
    return begin(Kind::AllGather,
                 {Range{all, bytesEach * members(group), false, true},
                  Range{const_cast<void *>(mine), bytesEach, true, false}},
                 how);
}

Result<Request> StagedCommunicator::allToAll(Group group, const void *from, void *to, std::int64_t bytesEach)
{
    Work how;
    how.group = group;
    how.count = bytesEach;
    const std::int64_t all = bytesEach * members(group);
    return begin(Kind::AllToAll, {Range{const_cast<void *>(from), all, true, false}, Range{to, all, false, true}}, how);
}

Result<Request> StagedCommunicator::allToAll(Group group, const void *from, std::span<const std::int64_t> bytesTo,
                                             void *to, std::span<const std::int64_t> bytesFrom)
{
    Work how;
    how.group = group;
    how.bytesTo.assign(bytesTo.begin(), bytesTo.end());
    how.bytesFrom.assign(bytesFrom.begin(), bytesFrom.end());
    std::int64_t sent = 0;
    std::int64_t received = 0;
    for (const std::int64_t bytes : bytesTo)
        sent += bytes;
    for (const std::int64_t bytes : bytesFrom)
        received += bytes;
    return begin(Kind::UnequalAllToAll,
                 {Range{const_cast<void *>(from), sent, true, false}, Range{to, received, false, true}}, how);
}

Result<Request> StagedCommunicator::broadcast(Group group, int root, void *data, std::int64_t bytes)
{
    Work how;
    how.group = group;
    how.peer = root;
    how.count = bytes;
    return begin(Kind::Broadcast, {Range{data, bytes, true, true}, Range{}}, how);
}

Result<Group> StagedCommunicator::makeGroup(std::span<const int> ranks)
{
    const Result<Group> group = m_inner.makeGroup(ranks);
    if (group)
        m_members.emplace_back(group->index, static_cast<std::int64_t>(ranks.size()));
    return group;
}

std::int64_t StagedCommunicator::members(Group group) const
{
    for (const auto &[index, count] : m_members)
        if (index == group.index)
            return count;
    return size(); // the world
}

// --- Their way over the host ----------------------------------------------------------------------------------------

void StagedCommunicator::expect(std::span<const Expected> together)
{
    if (together.empty())
        return;
    std::vector<std::int64_t> sizes;
    for (const Expected &call : together)
        if (call.bytes > 0)
            sizes.push_back(call.bytes);
    std::sort(sizes.begin(), sizes.end(), std::greater());
    std::vector<std::int64_t> &all = m_expected[together.front().peer < 0 ? 2 : together.front().sends ? 0 : 1];
    all.resize(std::max(all.size(), sizes.size()));
    for (std::size_t i = 0; i < sizes.size(); ++i)
        all[i] = std::max(all[i], sizes[i]);
}

Status StagedCommunicator::settle(std::chrono::nanoseconds /*deadline*/)
{
    for (std::vector<std::int64_t> &sizes : m_expected) {
        for (const std::int64_t bytes : sizes) {
            if (const Status added = addBlock(bytes); !added)
                return added;
            if (const Status added = addWork(); !added)
                return added;
        }
        sizes.clear();
    }
    m_waiting.reserve(m_works.size());
    return {};
}

Status StagedCommunicator::addWork()
{
    auto event = m_device.makeEvent();
    if (!event)
        return event.error();
    m_works.emplace_back().copied = std::move(*event);
    return {};
}

Status StagedCommunicator::addBlock(std::int64_t bytes)
{
    auto memory = m_device.allocate(device::Space::Host, bytes);
    if (!memory)
        return memory.error();
    m_blocks.push_back({std::move(*memory)});
    return {};
}

Result<std::size_t> StagedCommunicator::freeWork()
{
    for (std::size_t i = 0; i < m_works.size(); ++i)
        if (m_works[i].state == State::Free)
            return i;
    const Status added = addWork();
    return added ? Result<std::size_t>(m_works.size() - 1) : added.error();
}

/// The smallest free block of @p bytes or more: so those that settle() has made are enough in whatever order the calls
/// come.
Result<std::int32_t> StagedCommunicator::takeBlock(std::int64_t bytes)
{
    auto found = m_blocks.end();
    for (auto block = m_blocks.begin(); block != m_blocks.end(); ++block)
        if (!block->isUsed && block->memory.bytes() >= bytes
            && (found == m_blocks.end() || block->memory.bytes() < found->memory.bytes()))
            found = block;
    if (found == m_blocks.end()) {
        if (const Status added = addBlock(bytes); !added)
            return added.error();
        found = std::prev(m_blocks.end());
    }
    found->isUsed = true;
    return static_cast<std::int32_t>(found - m_blocks.begin());
}

Result<Request> StagedCommunicator::begin(Kind kind, const std::array<Range, 2> &ranges, const Work &how)
{
    const Result<std::size_t> free = freeWork();
    if (!free)
        return free.error();
    Work &work = m_works[*free];
    work.kind = kind;
    work.group = how.group;
    work.element = how.element;
    work.count = how.count;
    work.peer = how.peer;
    work.tag = how.tag;
    work.bytesTo = how.bytesTo;
    work.bytesFrom = how.bytesFrom;
    work.ranges = ranges;
    work.mark = m_marks != nullptr ? m_marks->current() : 0;
    if (const Status staged = stage(work); !staged)
        return staged.error();
    work.state = State::CopiesIn;
    copy(work, true);
    m_waiting.push_back(*free);
    if (const Status status = advance(); !status)
        return status.error();
    return Request{static_cast<std::int32_t>(*free), false};
}

/// Finds the ranges a place on the host.
Status StagedCommunicator::stage(Work &work)
{
    for (std::size_t i = 0; i < work.ranges.size(); ++i) {
        Range &range = work.ranges[i];
        range.host = range.data;
        if (range.data == nullptr || range.bytes == 0 || !m_device.owns(range.data))
            continue;
        const auto *first = static_cast<const std::byte *>(work.ranges[0].data);
        const auto *own = static_cast<const std::byte *>(range.data);
        if (i == 1 && own >= first && own < first + work.ranges[0].bytes) { // a part of the other range
            range.host = static_cast<std::byte *>(work.ranges[0].host) + (own - first);
            continue;
        }
        const Result<std::int32_t> block = takeBlock(range.bytes);
        if (!block)
            return block.error();
        work.staging[i] = *block;
        range.host = m_blocks[static_cast<std::size_t>(*block)].memory.data();
    }
    return {};
}

void StagedCommunicator::copy(const Work &work, bool in)
{
    for (const Range &range : work.ranges) {
        if (range.host == range.data || range.bytes == 0)
            continue;
        if (in && range.reads)
            m_queue->copyToHost(range.host, range.data, range.bytes);
        if (!in && range.writes)
            m_queue->copyToDevice(range.data, range.host, range.bytes);
    }
    m_queue->record(*work.copied);
}

Result<Request> StagedCommunicator::start(const Work &work)
{
    void *first = work.ranges[0].host;
    void *second = work.ranges[1].host;
    switch (work.kind) {
    case Kind::Send: return m_inner.isend(first, work.count, work.peer, work.tag);
    case Kind::Receive: return m_inner.irecv(first, work.count, work.peer, work.tag);
    case Kind::AllReduce: return m_inner.allReduce(work.group, work.element, first, work.count);
    case Kind::ReduceScatter: return m_inner.reduceScatter(work.group, work.element, first, second, work.count);
    case Kind::AllGather: return m_inner.allGather(work.group, second, first, work.count);
    case Kind::AllToAll: return m_inner.allToAll(work.group, first, second, work.count);
    case Kind::UnequalAllToAll: return m_inner.allToAll(work.group, first, work.bytesTo, second, work.bytesFrom);
    case Kind::Broadcast: break;
    }
    return m_inner.broadcast(work.group, work.peer, first, work.count);
}

Status StagedCommunicator::advance()
{
    while (!m_waiting.empty()) {
        Work &work = m_works[m_waiting.front()];
        const Result<bool> copied = work.copied->poll();
        if (!copied)
            return copied.error();
        if (!*copied)
            break;
        const Result<Request> request = start(work);
        if (!request)
            return request.error();
        work.inner = *request;
        work.state = State::UnderWay;
        m_waiting.erase(m_waiting.begin());
    }
    for (Work &work : m_works) {
        if (work.state == State::UnderWay) {
            const Result<bool> done = work.inner.pending() ? m_inner.test(work.inner) : Result<bool>(true);
            if (!done)
                return done.error();
            if (*done) {
                const MarkScope marked(m_marks, work.mark);
                copy(work, false);
                work.state = State::CopiesOut;
            }
        }
        if (work.state == State::CopiesOut) {
            const Result<bool> copied = work.copied->poll();
            if (!copied)
                return copied.error();
            if (*copied)
                work.state = State::Done;
        }
    }
    return {};
}

Result<bool> StagedCommunicator::test(Request &request)
{
    if (const Status status = advance(); !status)
        return status.error();
    Work &work = m_works[static_cast<std::size_t>(request.slot)];
    if (work.state != State::Done)
        return false;
    for (std::int32_t &block : work.staging)
        if (block >= 0)
            m_blocks[static_cast<std::size_t>(std::exchange(block, -1))].isUsed = false;
    work.state = State::Free;
    request = {};
    return true;
}

} // namespace planloom::runtime
