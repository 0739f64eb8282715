// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/gpu_team.h"
#include "executor/runtime/staged_communicator.h"

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace planloom::runtime {

/// What ranks tell each other about their devices before the first step.
struct GpuMember {
    std::int32_t onGpu = 0;
    std::int32_t version = 0; ///< of the library of communication; 0: none
    std::int32_t shares = 0;  ///< ranks may share the GPU
    std::array<char, PLANLOOM_IDENTITY_BYTES> identity{};
};

/// How data of ranks on GPUs travel.
enum class GpuPath : std::uint8_t {
    Host,
    Library, ///< all have it, in one version, on different GPUs
    Copies,  ///< between memories of the same GPU
};
/// How @p ranks reach each other's memory.
[[nodiscard]] GpuPath pathOf(std::span<const GpuMember> members, std::span<const int> ranks);

/// How the ranks of a run exchange data, in one line for its log. @p differs: whether some do so otherwise than
/// predictions have it, by the host's memory or on one GPU.
[[nodiscard]] std::string describePaths(std::span<const GpuMember> members, bool &differs);

/// Moves device memory by the GPUs' own library (NCCL) within groups and between pairs of ranks that it can reach, by
/// copies where all have the same GPU, and by the way of the host otherwise (StagedCommunicator); memory of the host
/// goes through the given communicator as it is.
///
/// Each group has a team of the library, made while makeGroup() returns; each pair of ranks that exchanges messages,
/// announced by connect(), one for each direction. A message's receiver learns from a few bytes over the given
/// communicator which message comes next, as the library has no tags. Teams have queues of their own, so that nothing
/// waits for the rank's computation, which is ordered with them by the host alone.
///
/// After an error of a team all are aborted, and every call fails. Thread contract: that of Communicator.
class GpuCommunicator final : public comm::Communicator {
public:
    /// Collective: all ranks of @p inner call it, one on a processor with nullptr as @p device, and hear of each
    /// other's GPUs. @p table: of the device's library, or why it has none. All must outlive what is made: nullptr
    /// where the host reaches the device's memory, or there is no device. Rank 0 logs which ranks reach each other how.
    /// Errors: those of the device and of communication.
    static Result<std::unique_ptr<GpuCommunicator>> create(comm::Communicator &inner, device::PluginDevice *device,
                                                           const Result<const PlanloomCommunicationTable *> &table,
                                                           std::chrono::nanoseconds deadline);
    ~GpuCommunicator() override;
    GpuCommunicator(const GpuCommunicator &) = delete;
    GpuCommunicator &operator=(const GpuCommunicator &) = delete;

    /// Commands belong to the task at whose call they were asked for. @p marks: borrowed; nullptr: nothing is marked.
    void setMarks(KernelMarks *marks);

    [[nodiscard]] int rank() const override { return m_inner.rank(); }
    [[nodiscard]] int size() const override { return m_inner.size(); }
    [[nodiscard]] int localSize() const override { return m_inner.localSize(); }
    [[nodiscard]] std::span<const int> sharers() const override { return m_inner.sharers(); }
    [[nodiscard]] int maxTag() const override { return m_inner.maxTag() - kOwnTags; }

    Result<comm::Request> isend(const void *data, std::int64_t bytes, int peer, int tag) override;
    Result<comm::Request> irecv(void *data, std::int64_t bytes, int peer, int tag) override;
    using Communicator::allReduce;
    Result<comm::Request> allReduce(comm::Group group, comm::Element element, void *data, std::int64_t count) override;
    Result<comm::Request> reduceScatter(comm::Group group, comm::Element element, const void *all, void *mine,
                                        std::int64_t countEach) override;
    Result<comm::Request> allGather(comm::Group group, const void *mine, void *all, std::int64_t bytesEach) override;
    Result<comm::Request> allToAll(comm::Group group, const void *from, void *to, std::int64_t bytesEach) override;
    Result<comm::Request> allToAll(comm::Group group, const void *from, std::span<const std::int64_t> bytesTo, void *to,
                                   std::span<const std::int64_t> bytesFrom) override;
    Result<comm::Request> broadcast(comm::Group group, int root, void *data, std::int64_t bytes) override;

    Result<bool> test(comm::Request &request) override;
    Result<comm::Group> makeGroup(std::span<const int> ranks) override;
    Status connect(std::span<const int> sendsTo, std::span<const int> receivesFrom) override;
    void expect(std::span<const Expected> together) override;
    Status settle(std::chrono::nanoseconds deadline) override;
    using Communicator::bytesSent;
    [[nodiscard]] std::int64_t bytesSent(comm::Collective kind) const override
    {
        return m_inner.bytesSent(kind) + m_bytesSent[static_cast<std::size_t>(kind)];
    }
    [[nodiscard]] std::string underWay() const override;
    void abort(std::string_view reason) override;
    Status barrier(std::chrono::nanoseconds deadline) override { return m_staged->barrier(deadline); }

    /// Leaves all teams, together with the other ranks; after a barrier, before the device's memory is given back. What
    /// has not left after @p deadline is aborted.
    void leave(std::chrono::nanoseconds deadline);
    /// Ends what is under way on this rank's GPU alone; the others see an error or their deadline.
    void abortTeams();

private:
    /// Messages from one rank to another.
    struct Channel {
        std::unique_ptr<GpuTeam> team;
        comm::Request idMoved;
        bool idComes = false;
        int peer = 0;
        bool sends = false;
        // Of the receiver.
        std::deque<TeamWork *> expected; ///< receives whose message has not been announced
        std::array<std::int64_t, 2> header{};
        comm::Request headerComes;
        bool announced = false; ///< header is that of a message without a receive
    };
    /// A group's team.
    struct GroupTeam {
        std::unique_ptr<GpuTeam> team;
        comm::Request idMoved;
        bool idComes = true;
    };

    GpuCommunicator(comm::Communicator &inner, device::PluginDevice &device, const PlanloomCommunicationTable *table,
                    std::vector<GpuMember> members, std::chrono::nanoseconds deadline)
        : m_inner(inner),
          m_device(device),
          m_table(table),
          m_members(std::move(members)),
          m_deadline(deadline)
    {
    }
    [[nodiscard]] Channel *channelOf(bool sends, int peer);
    [[nodiscard]] GpuTeam *teamOf(comm::Group group, std::initializer_list<const void *> memory);
    Result<TeamWork *> freeWork();
    Result<comm::Request> begin(GpuTeam &team, const PlanloomCollective &what);
    Result<comm::Request> message(Channel &channel, void *data, std::int64_t bytes, int tag);
    Result<comm::Request> viaHost(Result<comm::Request> request) const;
    Status advance();
    Status advanceAll();
    Status joinWith(GpuTeam &team, comm::Request &idMoved, bool &idComes);
    Status announce(Channel &channel);
    [[nodiscard]] Status late(const Channel &channel) const;
    [[nodiscard]] std::string failureOfDevice() const;
    Status fail(const Error &error);
    [[nodiscard]] std::vector<GpuTeam *> teams() const;

    static constexpr int kOwnTags = 2; ///< of ids and headers, the highest

    comm::Communicator &m_inner;
    device::PluginDevice &m_device;
    const PlanloomCommunicationTable *m_table;
    std::vector<GpuMember> m_members;
    std::chrono::nanoseconds m_deadline;
    KernelMarks *m_marks = nullptr;
    std::unique_ptr<StagedCommunicator> m_staged;
    std::map<std::int32_t, GroupTeam> m_groups; ///< by Group::index
    std::vector<std::unique_ptr<Channel>> m_channels;
    std::deque<TeamWork> m_works; ///< by Request::slot / 2
    std::array<std::int64_t, cost::kCollectives> m_bytesSent{};
    Status m_status; ///< the first error of a team
};

} // namespace planloom::runtime
