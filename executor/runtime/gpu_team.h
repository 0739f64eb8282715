// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/communicator.h"
#include "executor/device/plugin/team.h"
#include "executor/runtime/kernel_marks.h"

#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace planloom::runtime {

/// A call for a collective or a message of a GpuTeam.
struct TeamWork {
    enum class State : std::uint8_t {
        Free,
        Waits, ///< for calls before it, or the other end's message
        Given, ///< to the library, which may not have put it into the queue yet
        Runs,
        Done,
    };
    State state = State::Free;
    bool isMessage = false;
    PlanloomCollective collective{};
    std::vector<std::int64_t> bytesTo, bytesFrom; ///< of collective
    PlanloomMessage message{};
    int tag = 0;
    std::unique_ptr<device::Event> ended;
    std::uint64_t mark = 0;
    std::chrono::steady_clock::time_point since;
    /// Of the sender's line to the receiver, which tells it what comes next.
    std::array<std::int64_t, 2> header{}; ///< tag, bytes
    comm::Request headerSent;
};

/// A team of the device library as a rank uses it: joins it without waiting, gives it one call after the other on a
/// queue of its own, beside those of the rank's lanes, and learns of ends by polling. Thread contract: one thread.
class GpuTeam {
public:
    struct Place {
        const PlanloomCommunicationTable &table;
        device::PluginDevice &device;
        std::chrono::nanoseconds deadline; ///< no call may take longer
        bool shares = false;               ///< all members have this device
    };
    /// @p ranks in order of position; @p blocks: PlanloomTeamOptions.
    static Result<std::unique_ptr<GpuTeam>> make(const Place &place, std::vector<int> ranks, int position, int blocks);

    /// The id of the team: made by one member, for all. join() begins to join with it.
    Status makeId();
    [[nodiscard]] std::span<char> id() { return m_id; }
    Status join();

    void add(TeamWork &work);
    [[nodiscard]] bool joined() const { return m_joined; }
    [[nodiscard]] bool isIdle() const { return m_joined && m_waits.empty() && m_given.empty() && m_runs.empty(); }
    [[nodiscard]] const std::vector<int> &ranks() const { return m_ranks; }
    [[nodiscard]] int position() const { return m_position; }
    [[nodiscard]] bool reduces(comm::Element element) const
    {
        return !m_place.shares || element != comm::Element::Float64;
    }

    /// Goes on with what is under way. Error: Failed, of the library, the device or after the deadline; for good.
    Status advance(KernelMarks *marks);
    /// Before the first call, while others are awaited: the text of a wait that takes too long.
    [[nodiscard]] std::string joining() const;
    /// What is under way; empty: nothing.
    [[nodiscard]] std::string underWay() const;
    [[nodiscard]] std::string describe(const TeamWork &work) const;

    Status leave();
    Result<bool> left();
    /// Ends what is under way in all of them, which are of one device.
    static void abort(std::span<GpuTeam *const> teams);

private:
    GpuTeam(const Place &place, std::vector<int> ranks, int position, int blocks)
        : m_place(place),
          m_ranks(std::move(ranks)),
          m_position(position),
          m_blocks(blocks)
    {
    }
    Status give(KernelMarks *marks);
    Status use(const void *address);
    Status given(KernelMarks *marks);
    Status look();
    [[nodiscard]] Error failure(const TeamWork *work, const Error &why) const;

    Place m_place;
    std::vector<int> m_ranks;
    int m_position;
    int m_blocks;
    std::array<char, PLANLOOM_TEAM_ID_BYTES> m_id{};
    std::unique_ptr<device::Queue> m_queue;
    std::unique_ptr<device::Team> m_team;
    bool m_joined = false;
    std::deque<TeamWork *> m_waits;
    std::vector<TeamWork *> m_given, m_runs;
    std::vector<PlanloomMessage> m_messages; ///< of a group
    std::vector<const std::byte *> m_used;   ///< blocks that are registered
};

} // namespace planloom::runtime
