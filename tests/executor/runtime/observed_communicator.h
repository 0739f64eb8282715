// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/communicator.h"

#include <initializer_list>
#include <map>
#include <numeric>

namespace planloom::test {

/// Passes every call on to another communicator and tells a derived class when it begins and when it is done.
class ObservedCommunicator : public comm::Communicator {
public:
    [[nodiscard]] int rank() const final { return m_inner.rank(); }
    [[nodiscard]] int size() const final { return m_inner.size(); }
    [[nodiscard]] int localSize() const final { return m_inner.localSize(); }
    [[nodiscard]] std::span<const int> sharers() const final { return m_inner.sharers(); }
    [[nodiscard]] int maxTag() const final { return m_inner.maxTag(); }

    Result<comm::Request> isend(const void *data, std::int64_t bytes, int peer, int tag) final
    {
        begins({{data, bytes, false}});
        return begun(m_inner.isend(data, bytes, peer, tag));
    }
    Result<comm::Request> irecv(void *data, std::int64_t bytes, int peer, int tag) final
    {
        begins({{data, bytes, true}});
        return begun(m_inner.irecv(data, bytes, peer, tag));
    }

    using Communicator::allReduce;
    Result<comm::Request> allReduce(comm::Group group, comm::Element element, void *data, std::int64_t count) final
    {
        begins({{data, count * comm::bytesOf(element), true}});
        return begun(m_inner.allReduce(group, element, data, count));
    }
    Result<comm::Request> reduceScatter(comm::Group group, comm::Element element, const void *all, void *mine,
                                        std::int64_t countEach) final
    {
        const std::int64_t bytes = countEach * comm::bytesOf(element);
        begins({{all, bytes * members(group), false}, {mine, bytes, true}});
        return begun(m_inner.reduceScatter(group, element, all, mine, countEach));
    }
    Result<comm::Request> allGather(comm::Group group, const void *mine, void *all, std::int64_t bytesEach) final
    {
        begins({{mine, bytesEach, false}, {all, bytesEach * members(group), true}});
        return begun(m_inner.allGather(group, mine, all, bytesEach));
    }
    Result<comm::Request> allToAll(comm::Group group, const void *from, void *to, std::int64_t bytesEach) final
    {
        const std::int64_t bytes = bytesEach * members(group);
        begins({{from, bytes, false}, {to, bytes, true}});
        return begun(m_inner.allToAll(group, from, to, bytesEach));
    }
    Result<comm::Request> allToAll(comm::Group group, const void *from, std::span<const std::int64_t> bytesTo, void *to,
                                   std::span<const std::int64_t> bytesFrom) final
    {
        const auto sum = [](std::span<const std::int64_t> bytes) {
            return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
        };
        begins({{from, sum(bytesTo), false}, {to, sum(bytesFrom), true}});
        return begun(m_inner.allToAll(group, from, bytesTo, to, bytesFrom));
    }
    Result<comm::Request> broadcast(comm::Group group, int root, void *data, std::int64_t bytes) final
    {
        begins({{data, bytes, true}});
        return begun(m_inner.broadcast(group, root, data, bytes));
    }

    Result<bool> test(comm::Request &request) final
    {
        const comm::Request asked = request; // released if it is done
        testBegins();
        return tested(asked, m_inner.test(request));
    }
    Result<comm::Group> makeGroup(std::span<const int> ranks) final
    {
        auto group = m_inner.makeGroup(ranks);
        if (group)
            m_members[group->index] = static_cast<std::int64_t>(ranks.size());
        return group;
    }
    using Communicator::bytesSent;
    [[nodiscard]] std::int64_t bytesSent(comm::Collective kind) const final { return m_inner.bytesSent(kind); }
    void abort(std::string_view reason) final { m_inner.abort(reason); }
    Status barrier(std::chrono::nanoseconds deadline) final { return m_inner.barrier(deadline); }

protected:
    struct Range {
        const void *data;
        std::int64_t bytes;
        bool writes;
    };

    /// @p inner must outlive it.
    explicit ObservedCommunicator(comm::Communicator &inner)
        : m_inner(inner),
          m_members{{inner.world().index, inner.size()}}
    {
    }

    /// Right before a call, with the memory that it reads and writes.
    virtual void begins(std::initializer_list<Range> ranges) = 0;
    /// Right behind it; returns @p request.
    virtual Result<comm::Request> begun(Result<comm::Request> request) = 0;
    virtual void testBegins() {}
    /// Right behind a test() of @p request; returns @p done.
    virtual Result<bool> tested(const comm::Request &request, Result<bool> done) = 0;

private:
    [[nodiscard]] std::int64_t members(comm::Group group) const { return m_members.at(group.index); }

    comm::Communicator &m_inner;
    std::map<std::int32_t, std::int64_t> m_members; ///< per group
};

} // namespace planloom::test
