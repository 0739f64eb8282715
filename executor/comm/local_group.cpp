// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/local_group.h"

#include "executor/comm/pipe_communicator.h"
#include "executor/comm/ring_pipe.h"
#include "executor/comm/shared_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <vector>

namespace planloom::comm {

namespace {

/// A transfer of which only one side has called yet.
struct Half {
    int from;
    int to;
    int tag;
    void *data;
    std::int64_t bytes;
    std::int32_t slot; ///< of the caller's request
};

enum class SlotState : std::uint8_t { Free, Pending, Done };

} // namespace

struct LocalGroup::State {
    std::mutex mutex;
    std::vector<Half> sends;
    std::vector<Half> receives;
    std::vector<std::vector<SlotState>> slots;  ///< per rank
    std::map<std::int32_t, SharedMemory> pipes; ///< per group: the memory of its members' pipes
    std::map<std::int32_t, std::vector<int>> groups;
    std::string failure;               ///< why everything stopped; empty: it has not
    std::atomic<bool> isFailed{false}; ///< read without the mutex

    std::vector<int> all; ///< ranks

    explicit State(int size) : slots(static_cast<std::size_t>(size)), all(static_cast<std::size_t>(size))
    {
        std::iota(all.begin(), all.end(), 0);
    }

    [[nodiscard]] int size() const { return static_cast<int>(slots.size()); }

    std::int32_t takeSlot(int rank)
    {
        std::vector<SlotState> &mine = slots[static_cast<std::size_t>(rank)];
        auto slot = std::find(mine.begin(), mine.end(), SlotState::Free);
        if (slot == mine.end())
            slot = mine.insert(mine.end(), SlotState::Free);
        *slot = SlotState::Pending;
        return static_cast<std::int32_t>(slot - mine.begin());
    }

    SlotState &slot(int rank, std::int32_t index)
    {
        return slots[static_cast<std::size_t>(rank)][static_cast<std::size_t>(index)];
    }

    void fail(const std::string &why)
    {
        if (failure.empty())
            failure = why;
        isFailed = true;
    }

    /// Pairs @p half with the oldest fitting one of @p others, or leaves it in @p mine.
    void meet(const Half &half, std::vector<Half> &mine, std::vector<Half> &others, bool sending)
    {
        const auto other = std::find_if(others.begin(), others.end(), [&](const Half &o) {
            return o.from == half.from && o.to == half.to && o.tag == half.tag;
        });
        if (other == others.end()) {
            mine.push_back(half);
            return;
        }
        const Half &send = sending ? half : *other;
        const Half &receive = sending ? *other : half;
        if (send.bytes != receive.bytes) {
            fail("rank " + std::to_string(send.from) + " sent " + std::to_string(send.bytes) + " bytes and rank "
                 + std::to_string(send.to) + " expected " + std::to_string(receive.bytes));
            return;
        }
        if (send.bytes > 0)
            std::memcpy(receive.data, send.data, static_cast<std::size_t>(send.bytes));
        slot(send.from, send.slot) = SlotState::Done;
        slot(send.to, receive.slot) = SlotState::Done;
        others.erase(other);
    }

    /// The memory of a group's pipes: the first member makes it.
    Result<SharedMemory *> pipesOf(std::int32_t group, std::span<const int> ranks)
    {
        const std::vector<int> members(ranks.begin(), ranks.end());
        if (const auto [known, isNew] = groups.try_emplace(group, members); !isNew && known->second != members)
            return failed("ranks make their groups in different orders");
        SharedMemory &memory = pipes[group];
        const auto count = static_cast<std::int64_t>(ranks.size());
        if (memory.data() == nullptr && count > 1) {
            Result<SharedMemory> made = SharedMemory::forThreads(count * count * RingPipe::kBytes);
            if (!made)
                return made.error();
            memory = std::move(*made);
        }
        return &memory;
    }
};

class LocalGroup::End final : public PipeCommunicator {
public:
    End(std::shared_ptr<State> state, int rank) : m_state(std::move(state)), m_rank(rank) {}
    ~End() override { dropCollectives(); }
    End(const End &) = delete;
    End &operator=(const End &) = delete;

    [[nodiscard]] int rank() const override { return m_rank; }
    [[nodiscard]] int size() const override { return m_state->size(); }
    [[nodiscard]] int localSize() const override { return m_state->size(); }
    [[nodiscard]] std::span<const int> sharers() const override { return m_state->all; }
    [[nodiscard]] int maxTag() const override { return std::numeric_limits<int>::max(); }

    Result<Request> isend(const void *data, std::int64_t bytes, int peer, int tag) override
    {
        const std::lock_guard lock(m_state->mutex);
        if (const Status status = check(peer); !status)
            return status.error();
        const Half half{m_rank, peer, tag, const_cast<void *>(data), bytes, m_state->takeSlot(m_rank)};
        m_state->meet(half, m_state->sends, m_state->receives, true);
        return Request{half.slot};
    }

    Result<Request> irecv(void *data, std::int64_t bytes, int peer, int tag) override
    {
        const std::lock_guard lock(m_state->mutex);
        if (const Status status = check(peer); !status)
            return status.error();
        const Half half{peer, m_rank, tag, data, bytes, m_state->takeSlot(m_rank)};
        m_state->meet(half, m_state->receives, m_state->sends, false);
        return Request{half.slot};
    }

    void abort(std::string_view reason) override
    {
        const std::lock_guard lock(m_state->mutex);
        m_state->fail("rank " + std::to_string(m_rank) + " stopped: " + std::string(reason));
    }

protected:
    Result<bool> testMessage(Request &request) override
    {
        const std::lock_guard lock(m_state->mutex);
        if (const Status status = check(m_rank); !status)
            return status.error();
        if (!request.pending())
            return true;
        SlotState &slot = m_state->slot(m_rank, request.slot);
        if (slot != SlotState::Done)
            return false;
        slot = SlotState::Free;
        request.slot = -1;
        return true;
    }

    Status progressMessages() override
    {
        if (!m_state->isFailed)
            return {};
        const std::lock_guard lock(m_state->mutex);
        return failed(m_state->failure);
    }

    Result<std::vector<std::unique_ptr<Pipe>>> makePipes(std::int32_t group, std::span<const int> ranks) override
    {
        const std::lock_guard lock(m_state->mutex);
        const Result<SharedMemory *> memory = m_state->pipesOf(group, ranks);
        if (!memory)
            return memory.error();
        std::vector<std::unique_ptr<Pipe>> pipes;
        const auto mine = static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), m_rank) - ranks.begin());
        for (std::size_t peer = 0; peer < ranks.size() && mine < ranks.size(); ++peer)
            pipes.push_back(peer == mine ? nullptr : ringBetween((*memory)->data(), ranks, mine, peer));
        return pipes;
    }

private:
    [[nodiscard]] Status check(int peer) const
    {
        if (!m_state->failure.empty())
            return failed(m_state->failure);
        if (peer < 0 || peer >= m_state->size())
            return failed("there is no rank " + std::to_string(peer));
        return {};
    }

    std::shared_ptr<State> m_state;
    int m_rank;
};

LocalGroup::LocalGroup(int size) : m_state(std::make_shared<State>(size)) {}
LocalGroup::~LocalGroup() = default;

std::unique_ptr<Communicator> LocalGroup::end(int rank)
{
    auto made = std::make_unique<End>(m_state, rank);
    std::vector<int> all(static_cast<std::size_t>(m_state->size()));
    std::iota(all.begin(), all.end(), 0);
    if (const Result<Group> world = made->makeGroup(all); !world)
        made->abort(world.error().message); // every call fails with this error
    return made;
}

} // namespace planloom::comm
