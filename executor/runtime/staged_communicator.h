// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/communicator.h"
#include "executor/device/plugin/plugin_device.h"
#include "executor/runtime/kernel_marks.h"

#include <array>
#include <memory>
#include <vector>

namespace planloom::runtime {

/// Lets a transport that knows the host's memory only move a device's: what is sent is copied to the host first, what
/// comes is copied to the device before test() says that it is done. So ranks on GPUs, several of them on one GPU too,
/// train without a library of the GPUs' own; each byte crosses the device's bus once more on both sides.
///
/// Calls start on the inner transport in the order in which they were made here. Memory that is not the device's goes
/// through as it is. Staging memory is pinned: settle() allocates it for what was announced by expect(); a call that
/// was not may allocate more, and all is kept for later ones. Thread contract: that of Communicator.
class StagedCommunicator final : public comm::Communicator {
public:
    /// Both must outlive it. Errors: those of the device.
    static Result<std::unique_ptr<StagedCommunicator>> create(comm::Communicator &inner, device::PluginDevice &device);

    /// Copies belong to the task at whose call they were asked for. @p marks: borrowed; nullptr: nothing is marked.
    void setMarks(KernelMarks *marks) { m_marks = marks; }

    [[nodiscard]] int rank() const override { return m_inner.rank(); }
    [[nodiscard]] int size() const override { return m_inner.size(); }
    [[nodiscard]] int localSize() const override { return m_inner.localSize(); }
    [[nodiscard]] std::span<const int> sharers() const override { return m_inner.sharers(); }
    [[nodiscard]] int maxTag() const override { return m_inner.maxTag(); }

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
    void expect(std::span<const Expected> together) override;
    /// Not collective here.
    Status settle(std::chrono::nanoseconds deadline) override;
    using Communicator::bytesSent;
    [[nodiscard]] std::int64_t bytesSent(comm::Collective kind) const override { return m_inner.bytesSent(kind); }
    void abort(std::string_view reason) override { m_inner.abort(reason); }
    Status barrier(std::chrono::nanoseconds deadline) override { return m_inner.barrier(deadline); }

private:
    enum class Kind : std::uint8_t {
        Send,
        Receive,
        AllReduce,
        ReduceScatter,
        AllGather,
        AllToAll,
        UnequalAllToAll,
        Broadcast
    };
    enum class State : std::uint8_t { Free, CopiesIn, UnderWay, CopiesOut, Done };
    /// A range that the call reads, writes or both.
    struct Range {
        void *data = nullptr;
        std::int64_t bytes = 0;
        bool reads = false;
        bool writes = false;
        void *host = nullptr; ///< where the transport finds it
    };
    struct Work {
        State state = State::Free;
        Kind kind = Kind::Send;
        comm::Group group;
        comm::Element element = comm::Element::Float32;
        std::int64_t count = 0; ///< elements or bytes, as the call has it
        int peer = 0;           ///< or root
        int tag = 0;
        std::array<Range, 2> ranges;
        std::vector<std::int64_t> bytesTo, bytesFrom;
        std::array<std::int32_t, 2> staging{-1, -1}; ///< blocks of the ranges; -1: none
        std::unique_ptr<device::Event> copied;
        comm::Request inner;
        std::uint64_t mark = 0;
    };

    StagedCommunicator(comm::Communicator &inner, device::PluginDevice &device) : m_inner(inner), m_device(device) {}
    /// Pinned memory that a call's data pass through.
    struct Block {
        device::Memory memory;
        bool isUsed = false;
    };
    Result<std::size_t> freeWork();
    Status addWork();
    Status addBlock(std::int64_t bytes);
    Result<std::int32_t> takeBlock(std::int64_t bytes);
    Result<comm::Request> begin(Kind kind, const std::array<Range, 2> &ranges, const Work &how);
    Status stage(Work &work);
    Result<comm::Request> start(const Work &work);
    Status advance();
    void copy(const Work &work, bool in);
    [[nodiscard]] std::int64_t members(comm::Group group) const;

    comm::Communicator &m_inner;
    device::PluginDevice &m_device;
    KernelMarks *m_marks = nullptr;
    std::vector<Work> m_works;
    std::vector<Block> m_blocks;
    /// Sizes in falling order of messages out, messages in and ranges of collectives: as large as in any expect().
    std::array<std::vector<std::int64_t>, 3> m_expected;
    std::vector<std::size_t> m_waiting;                           ///< copied in, in the order of calls
    std::vector<std::pair<std::int32_t, std::int64_t>> m_members; ///< of groups
    std::unique_ptr<device::Queue> m_queue;                       ///< goes first, when its copies have ended
};

} // namespace planloom::runtime
