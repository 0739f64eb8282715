// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/communication.h"

#include <array>
#include <memory>
#include <span>
#include <vector>

namespace planloom::cuda {

/// A team whose members share one device: they read each other's memory. Of another process it is opened on the device,
/// of the same process it is there already. Members meet in shared memory of the host, before a call to say where their
/// data lie, and behind each part of it, when its commands have ended; poll() goes on with that.
///
/// An all-reduce is two parts: each member adds up its share of the elements, and then takes the others'. Every sum is
/// made once, own part first, then in order of position, so all members have the same bits, in every run.
///
/// A member that aborts ends its own commands and waits for those of others that may read its memory.
class CopyTeam final : public Team {
public:
    static constexpr int kMostMembers = 64;

    /// @p id: of PLANLOOM_TEAM_ID_BYTES, the name of the shared memory.
    static Status makeId(std::span<char> id);
    /// @p device must outlive it. Does not wait for the others. Errors: Failed (the host's shared memory, the device),
    /// Unsupported (more than kMostMembers).
    static Result<std::unique_ptr<Team>> join(CudaDevice &device, const PlanloomTeamOptions &how);
    /// Aborts it, unless all have left.
    ~CopyTeam() override;

    Result<bool> poll() override;
    /// Makes a block readable for the others. Error: Failed (it cannot be exported).
    Result<bool> use(void *data, std::int64_t bytes) override;
    Status collective(CudaQueue &queue, const PlanloomCollective &what) override;
    Status messages(CudaQueue &queue, std::span<const PlanloomMessage> messages) override;
    Status leave() override;
    void abort() override;
    /// Until no member reads this one's memory.
    void awaitReaders(std::chrono::steady_clock::time_point end) override;

private:
    struct Place;
    struct Member;
    struct Meeting;
    class Mapping;
    /// A block of this member's that others may read.
    struct Block {
        const std::byte *data = nullptr;
        std::int64_t bytes = 0;
        MemoryHandle handle{};
    };
    /// A block of another process, opened here.
    struct Opened {
        MemoryHandle handle{};
        void *data = nullptr;
    };
    enum class Stage : std::uint8_t { Idle, Meets, Works };

    CopyTeam(CudaDevice &device, int members, int position);
    [[nodiscard]] Member &own() const;
    [[nodiscard]] bool allAt(std::uint64_t number) const;
    [[nodiscard]] bool beginsToRead();
    Status tell(Place &place, const void *data) const;
    Result<const std::byte *> find(const Place &place);
    Result<std::vector<const std::byte *>> findAll();
    Result<bool> advance();
    Status work();
    Status sum(std::int64_t first, std::int64_t count, std::byte *to, const std::vector<const std::byte *> &from);
    void add(std::byte *to, const std::byte *more, std::int64_t count);
    Result<bool> advanceMessages();
    void closeOpened();
    [[nodiscard]] std::int64_t shareOf(int member) const;

    CudaDevice &m_device;
    int m_members;
    int m_position;
    std::shared_ptr<Mapping> m_mapping;
    Meeting *m_meeting = nullptr; ///< of m_mapping
    std::unique_ptr<device::Event> m_ended;
    CudaQueue *m_queue = nullptr; ///< of what is under way
    PlanloomCollective m_what{};
    std::vector<std::int64_t> m_bytesFrom; ///< of m_what
    Stage m_stage = Stage::Idle;
    int m_part = 0;
    std::uint64_t m_number = 0; ///< meetings of this member
    std::vector<PlanloomMessage> m_messages;
    std::size_t m_message = 0; ///< under way
    std::uint64_t m_moved = 0; ///< messages that have been moved
    bool m_copies = false;     ///< commands of a message are under way
    bool m_leaves = false;
    bool m_left = false;
    bool m_aborted = false;
    bool m_awaited = false; ///< those who read its memory
    std::vector<Block> m_blocks;
    std::vector<Opened> m_opened;
};

} // namespace planloom::cuda
