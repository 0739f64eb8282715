// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/communicator.h"

#include "executor/comm/collectives.h"

#include <sched.h>

#include <algorithm>

namespace planloom::comm {

namespace {

const std::byte *bytes(const void *data)
{
    return static_cast<const std::byte *>(data);
}

std::byte *bytes(void *data)
{
    return static_cast<std::byte *>(data);
}

} // namespace

Communicator::Communicator() : m_collectives(std::make_unique<Collectives>()) {}
Communicator::~Communicator() = default;

void Communicator::dropCollectives()
{
    m_collectives = std::make_unique<Collectives>();
}

Result<Request> Communicator::start(Group group, const Call &call)
{
    if (const Status status = progressMessages(); !status)
        return status.error();
    if (!m_collectives->isMember(group))
        return failed("rank " + std::to_string(rank()) + " is no member of the group that it starts a collective with");
    return m_collectives->start(group, call);
}

Result<Request> Communicator::allReduce(Group group, Element element, void *data, std::int64_t count)
{
    return start(group, {{Collective::AllReduce, count * bytesOf(element), 0}, element, bytes(data), bytes(data), 0});
}

Result<Request> Communicator::reduceScatter(Group group, Element element, const void *all, void *mine, std::int64_t countEach)
{
    return start(group, {{Collective::ReduceScatter, countEach * bytesOf(element), 0}, element, bytes(all), bytes(mine), 0});
}

Result<Request> Communicator::allGather(Group group, const void *mine, void *all, std::int64_t bytesEach)
{
    return start(group, {{Collective::AllGather, bytesEach, 0}, Element::Float32, bytes(mine), bytes(all), 0});
}

Result<Request> Communicator::allToAll(Group group, const void *from, void *to, std::int64_t bytesEach)
{
    return start(group, {{Collective::AllToAll, bytesEach, 0}, Element::Float32, bytes(from), bytes(to), 0});
}

Result<Request> Communicator::broadcast(Group group, int root, void *data, std::int64_t byteCount)
{
    return start(group, {{Collective::Broadcast, byteCount, 0}, Element::Float32, bytes(data), bytes(data), root});
}

Result<bool> Communicator::test(Request &request)
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

Result<Group> Communicator::makeGroup(std::span<const int> ranks)
{
    const auto mine = std::find(ranks.begin(), ranks.end(), rank());
    auto pipes = makePipes(m_collectives->groups(), ranks);
    if (!pipes)
        return pipes.error();
    return Group{m_collectives->addGroup(std::move(*pipes), static_cast<int>(mine - ranks.begin()))};
}

std::int64_t Communicator::bytesSent(Collective kind) const
{
    return m_collectives->bytesSent(kind);
}

std::int64_t Communicator::bytesSent() const
{
    std::int64_t sum = 0;
    for (std::size_t kind = 0; kind < cost::kCollectives; ++kind)
        sum += bytesSent(static_cast<Collective>(kind));
    return sum;
}

Status Communicator::wait(Request &request, std::chrono::nanoseconds deadline, std::string_view what)
{
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (true) {
        const Result<bool> done = test(request);
        if (!done)
            return done.error();
        if (*done)
            return {};
        if (std::chrono::steady_clock::now() > end) {
            const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(deadline).count();
            return failed("rank " + std::to_string(rank()) + " waited " + std::to_string(seconds) + " s for " + std::string(what)
                          + "; look at the other ranks' messages and at the network between the machines");
        }
        sched_yield();
    }
}

Status Communicator::barrier(std::chrono::nanoseconds deadline)
{
    // Each member sends its mark to every other one: whoever has all of them knows that all are here.
    m_marks.resize(static_cast<std::size_t>(size()));
    std::uint8_t mine = 1;
    Result<Request> request = allGather(world(), &mine, m_marks.data(), 1);
    if (!request)
        return request.error();
    return wait(*request, deadline, "all ranks to meet");
}

} // namespace planloom::comm
