// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/local_group.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
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

struct Reduction {
    std::vector<int> ranks;
    std::vector<float *> data; ///< per member, nullptr until it has called
    std::vector<std::int32_t> slots;
    std::int64_t count = 0;
    std::size_t arrived = 0;
    std::vector<float> sum;
};

enum class SlotState : std::uint8_t { Free, Pending, Done };

} // namespace

struct LocalGroup::State {
    std::mutex mutex;
    std::vector<Half> sends;
    std::vector<Half> receives;
    std::vector<Reduction> reductions;
    std::vector<int> groupsMade;                ///< per rank: how many groups it has asked for
    std::vector<std::vector<SlotState>> slots;  ///< per rank
    std::string failure;                        ///< why everything stopped; empty: it has not

    explicit State(int size) : groupsMade(static_cast<std::size_t>(size), 1), slots(static_cast<std::size_t>(size))
    {
        Reduction world;
        for (int rank = 0; rank < size; ++rank)
            world.ranks.push_back(rank);
        prepare(world);
        reductions.push_back(std::move(world));
    }

    static void prepare(Reduction &reduction)
    {
        reduction.data.assign(reduction.ranks.size(), nullptr);
        reduction.slots.assign(reduction.ranks.size(), -1);
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

    SlotState &slot(int rank, std::int32_t index) { return slots[static_cast<std::size_t>(rank)][static_cast<std::size_t>(index)]; }

    void fail(const std::string &why)
    {
        if (failure.empty())
            failure = why;
    }

    /// Pairs @p half with the oldest fitting one of @p others, or leaves it in @p mine.
    void meet(const Half &half, std::vector<Half> &mine, std::vector<Half> &others, bool sending)
    {
        const auto other = std::find_if(others.begin(), others.end(), [&](const Half &o) { return o.from == half.from && o.to == half.to && o.tag == half.tag; });
        if (other == others.end()) {
            mine.push_back(half);
            return;
        }
        const Half &send = sending ? half : *other;
        const Half &receive = sending ? *other : half;
        if (send.bytes != receive.bytes) {
            fail("rank " + std::to_string(send.from) + " sent " + std::to_string(send.bytes) + " bytes and rank " + std::to_string(send.to) + " expected "
                 + std::to_string(receive.bytes));
            return;
        }
        if (send.bytes > 0)
            std::memcpy(receive.data, send.data, static_cast<std::size_t>(send.bytes));
        slot(send.from, send.slot) = SlotState::Done;
        slot(send.to, receive.slot) = SlotState::Done;
        others.erase(other);
    }

    /// Everybody is here: adds in the order of the members and hands the sum to each.
    void reduce(Reduction &reduction)
    {
        const auto count = static_cast<std::size_t>(reduction.count);
        reduction.sum.assign(reduction.data[0], reduction.data[0] + count);
        for (std::size_t member = 1; member < reduction.ranks.size(); ++member) {
            for (std::size_t i = 0; i < count; ++i)
                reduction.sum[i] += reduction.data[member][i];
        }
        for (std::size_t member = 0; member < reduction.ranks.size(); ++member) {
            std::copy(reduction.sum.begin(), reduction.sum.end(), reduction.data[member]);
            slot(reduction.ranks[member], reduction.slots[member]) = SlotState::Done;
            reduction.data[member] = nullptr;
        }
        reduction.arrived = 0;
    }
};

class LocalGroup::End final : public Communicator {
public:
    End(std::shared_ptr<State> state, int rank) : m_state(std::move(state)), m_rank(rank) {}

    [[nodiscard]] int rank() const override { return m_rank; }
    [[nodiscard]] int size() const override { return m_state->size(); }
    [[nodiscard]] int localRank() const override { return m_rank; }
    [[nodiscard]] int localSize() const override { return m_state->size(); }
    [[nodiscard]] int maxTag() const override { return std::numeric_limits<int>::max(); }
    [[nodiscard]] Group world() const override { return {0}; }

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

    Result<Request> allReduce(Group group, float *data, std::int64_t count) override
    {
        const std::lock_guard lock(m_state->mutex);
        if (const Status status = check(m_rank); !status)
            return status.error();
        Reduction &reduction = m_state->reductions[static_cast<std::size_t>(group.index)];
        const auto member = std::find(reduction.ranks.begin(), reduction.ranks.end(), m_rank);
        if (member == reduction.ranks.end())
            return failed("rank " + std::to_string(m_rank) + " is no member of the group that it reduces with");
        const auto index = static_cast<std::size_t>(member - reduction.ranks.begin());
        if (reduction.data[index] != nullptr)
            return failed("rank " + std::to_string(m_rank) + " reduces twice at once with one group");
        if (reduction.arrived > 0 && reduction.count != count)
            return failed("the members of a group reduce different counts: " + std::to_string(reduction.count) + " and " + std::to_string(count));
        reduction.count = count;
        reduction.data[index] = data;
        const std::int32_t slot = m_state->takeSlot(m_rank);
        reduction.slots[index] = slot;
        if (++reduction.arrived == reduction.ranks.size())
            m_state->reduce(reduction);
        return Request{slot};
    }

    Result<bool> test(Request &request) override
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

    Result<Group> makeGroup(std::span<const int> ranks) override
    {
        const std::lock_guard lock(m_state->mutex);
        if (const Status status = check(m_rank); !status)
            return status.error();
        const auto index = static_cast<std::size_t>(m_state->groupsMade[static_cast<std::size_t>(m_rank)]++);
        if (index == m_state->reductions.size()) {
            Reduction reduction;
            reduction.ranks.assign(ranks.begin(), ranks.end());
            State::prepare(reduction);
            m_state->reductions.push_back(std::move(reduction));
        }
        if (!std::equal(ranks.begin(), ranks.end(), m_state->reductions[index].ranks.begin(), m_state->reductions[index].ranks.end()))
            return failed("ranks make their groups in different orders");
        return Group{static_cast<std::int32_t>(index)};
    }

    void abort(std::string_view reason) override
    {
        const std::lock_guard lock(m_state->mutex);
        m_state->fail("rank " + std::to_string(m_rank) + " stopped: " + std::string(reason));
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
    return std::make_unique<End>(m_state, rank);
}

} // namespace planloom::comm
