// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/communicator.h"

#include <algorithm>
#include <memory>

namespace planloom::runtime {

/// The first ranks of a larger set as a set of their own: trainers, beside which other processes run. Messages and
/// groups are those of the larger set, whose other ranks make no groups. Thread contract: that of Communicator.
class TrainerCommunicator final : public comm::Communicator {
public:
    /// Ranks 0 .. @p trainers - 1 of @p inner, which must outlive it; all of them call it. Errors: those of makeGroup.
    static Result<std::unique_ptr<TrainerCommunicator>> create(comm::Communicator &inner, int trainers);

    [[nodiscard]] int rank() const override { return m_inner.rank(); }
    [[nodiscard]] int size() const override { return m_trainers; }
    [[nodiscard]] int localSize() const override { return std::min(m_inner.localSize(), m_trainers); }
    [[nodiscard]] std::span<const int> sharers() const override
    {
        const std::span<const int> all = m_inner.sharers();
        return all.first(static_cast<std::size_t>(std::ranges::lower_bound(all, m_trainers) - all.begin()));
    }
    [[nodiscard]] int maxTag() const override { return m_inner.maxTag(); }

    Result<comm::Request> isend(const void *data, std::int64_t bytes, int peer, int tag) override
    {
        return m_inner.isend(data, bytes, peer, tag);
    }
    Result<comm::Request> irecv(void *data, std::int64_t bytes, int peer, int tag) override
    {
        return m_inner.irecv(data, bytes, peer, tag);
    }
    using Communicator::allReduce;
    Result<comm::Request> allReduce(comm::Group group, comm::Element element, void *data, std::int64_t count) override
    {
        return m_inner.allReduce(inner(group), element, data, count);
    }
    Result<comm::Request> reduceScatter(comm::Group group, comm::Element element, const void *all, void *mine,
                                        std::int64_t countEach) override
    {
        return m_inner.reduceScatter(inner(group), element, all, mine, countEach);
    }
    Result<comm::Request> allGather(comm::Group group, const void *mine, void *all, std::int64_t bytesEach) override
    {
        return m_inner.allGather(inner(group), mine, all, bytesEach);
    }
    Result<comm::Request> allToAll(comm::Group group, const void *from, void *to, std::int64_t bytesEach) override
    {
        return m_inner.allToAll(inner(group), from, to, bytesEach);
    }
    Result<comm::Request> allToAll(comm::Group group, const void *from, std::span<const std::int64_t> bytesTo, void *to,
                                   std::span<const std::int64_t> bytesFrom) override
    {
        return m_inner.allToAll(inner(group), from, bytesTo, to, bytesFrom);
    }
    Result<comm::Request> broadcast(comm::Group group, int root, void *data, std::int64_t bytes) override
    {
        return m_inner.broadcast(inner(group), root, data, bytes);
    }
    Result<bool> test(comm::Request &request) override { return m_inner.test(request); }
    Result<comm::Group> makeGroup(std::span<const int> ranks) override { return m_inner.makeGroup(ranks); }
    using Communicator::bytesSent;
    [[nodiscard]] std::int64_t bytesSent(comm::Collective kind) const override { return m_inner.bytesSent(kind); }
    [[nodiscard]] bool wakes() const override { return m_inner.wakes(); }
    void listen(bool on) override { m_inner.listen(on); }
    void sleep(std::chrono::nanoseconds blind) override { m_inner.sleep(blind); }
    void abort(std::string_view reason) override { m_inner.abort(reason); }
    Status barrier(std::chrono::nanoseconds deadline) override;

private:
    TrainerCommunicator(comm::Communicator &inner, int trainers) : m_inner(inner), m_trainers(trainers) {}
    /// world() is the trainers' group.
    [[nodiscard]] comm::Group inner(comm::Group group) const { return group.index == 0 ? m_world : group; }

    comm::Communicator &m_inner;
    int m_trainers;
    comm::Group m_world;
};

} // namespace planloom::runtime
