// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/pipe_communicator.h"

#include "executor/comm/collectives.h"

#include <algorithm>

namespace planloom::comm {

namespace {

const std::byte *bytes(const void *data) { return static_cast<const std::byte *>(data); }

std::byte *bytes(void *data) { return static_cast<std::byte *>(data); }

} // namespace

PipeCommunicator::PipeCommunicator() : m_collectives(std::make_unique<Collectives>()) {}
PipeCommunicator::~PipeCommunicator() = default;

void PipeCommunicator::dropCollectives() { m_collectives = std::make_unique<Collectives>(); }

Result<Request> PipeCommunicator::start(Group group, const Call &call)
{
    if (const Status status = progressMessages(); !status)
        return status.error();
    if (!m_collectives->isMember(group))
        return failed("rank " + std::to_string(rank()) + " is no member of the group that it starts a collective with");
    return m_collectives->start(group, call);
}

Result<Request> PipeCommunicator::allReduce(Group group, Element element, void *data, std::int64_t count)
{
    return start(group, {{Collective::AllReduce, count * bytesOf(element), 0}, element, bytes(data), bytes(data), 0});
}

Result<Request> PipeCommunicator::reduceScatter(Group group, Element element, const void *all, void *mine,
                                                std::int64_t countEach)
{
    return start(group,
                 {{Collective::ReduceScatter, countEach * bytesOf(element), 0}, element, bytes(all), bytes(mine), 0});
}

Result<Request> PipeCommunicator::allGather(Group group, const void *mine, void *all, std::int64_t bytesEach)
{
    return start(group, {{Collective::AllGather, bytesEach, 0}, Element::Float32, bytes(mine), bytes(all), 0});
}

Result<Request> PipeCommunicator::allToAll(Group group, const void *from, void *to, std::int64_t bytesEach)
{
    return start(group, {{Collective::AllToAll, bytesEach, 0}, Element::Float32, bytes(from), bytes(to), 0});
}

Result<Request> PipeCommunicator::allToAll(Group group, const void *from, std::span<const std::int64_t> bytesTo,
                                           void *to, std::span<const std::int64_t> bytesFrom)
{
    const auto own = static_cast<std::size_t>(m_collectives->position(group));
    if (m_collectives->isMember(group)
        && (std::ssize(bytesTo) != m_collectives->members(group) || bytesTo.size() != bytesFrom.size()
            || bytesTo[own] != bytesFrom[own]))
        return failed("an all-to-all needs the bytes of one piece per member each way, the member's own the same in "
                      "both");
    return start(
        group, {{Collective::AllToAll, kUnequal, 0}, Element::Float32, bytes(from), bytes(to), 0, bytesTo, bytesFrom});
}

Result<Request> PipeCommunicator::broadcast(Group group, int root, void *data, std::int64_t byteCount)
{
    return start(group, {{Collective::Broadcast, byteCount, 0}, Element::Float32, bytes(data), bytes(data), root});
}

Result<bool> PipeCommunicator::test(Request &request)
{
    if (const Status status = m_collectives->progress(); !status)
        return status.error();
    if (!request.collective)
        return testMessage(request);
    if (const Status status = progressMessages(); !status)
        return status.error();
    if (!request.pending())
        return true;
    if (!m_collectives->isDone(request))
        return false;
    m_collectives->release(request);
    request = {};
    return true;
}

Result<Group> PipeCommunicator::makeGroup(std::span<const int> ranks)
{
    const auto mine = std::find(ranks.begin(), ranks.end(), rank());
    auto pipes = makePipes(m_collectives->groups(), ranks);
    if (!pipes)
        return pipes.error();
    return Group{m_collectives->addGroup(std::move(*pipes), static_cast<int>(mine - ranks.begin()))};
}

std::int64_t PipeCommunicator::bytesSent(Collective kind) const { return m_collectives->bytesSent(kind); }

Status PipeCommunicator::barrier(std::chrono::nanoseconds deadline)
{
    // Each member sends its mark to every other one; a member with all marks knows that all have arrived.
    m_marks.resize(static_cast<std::size_t>(size()));
    std::uint8_t mine = 1;
    Result<Request> request = allGather(world(), &mine, m_marks.data(), 1);
    if (!request)
        return request.error();
    return wait(*request, deadline, "all ranks to meet");
}

} // namespace planloom::comm
