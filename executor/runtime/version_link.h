// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/program/parameter_server.h"
#include "executor/comm/communicator.h"

#include <array>
#include <vector>

namespace planloom::runtime {

// Messages between the ranks of a Program and its parameter server, which is the last process.
inline constexpr int kArrivalTag = 11; ///< rank to server: VersionLink::Header
inline constexpr int kMessageTag = 12; ///< rank to server, behind an arrival: float32
inline constexpr int kVersionTag = 13; ///< server to rank: VersionLink::Header
inline constexpr int kAnswerTag = 14;  ///< server to rank, behind it: float32

/// A rank's way to the parameter server (program::ParameterServer). Thread contract: one thread.
class VersionLink {
public:
    using Header = std::array<std::int64_t, 2>;
    // The first number of what a rank sends; the second is the version that it has computed with.
    static constexpr std::int64_t kArrives = 1;
    static constexpr std::int64_t kLeaves = 2;
    // Flags in the second number of an answer; the first is its version.
    static constexpr std::int64_t kPauses = 1;
    static constexpr std::int64_t kEnds = 2;

    /// @p all: the processes of the run, of which the last one is the server. Borrowed.
    VersionLink(comm::Communicator &all, const program::ParameterServer &server, std::int64_t version);

    [[nodiscard]] comm::Communicator &processes() { return m_all; }

    /// Sends the message at @p data, host memory, in whose place the answer comes. Error: Failed.
    Status start(std::byte *data);
    /// True once the answer is there. Error: Failed.
    Result<bool> test();
    /// After the last step, and only then: the server need not wait for this rank. Errors: Failed, a deadline.
    Status leave(std::chrono::nanoseconds deadline);

    /// Of the last answer.
    [[nodiscard]] std::int64_t version() const { return m_answer[0]; }
    /// All ranks have got this version and begin the next step together.
    [[nodiscard]] bool pauses() const { return (m_answer[1] & kPauses) != 0; }
    /// It is the last one.
    [[nodiscard]] bool ends() const { return (m_answer[1] & kEnds) != 0; }

private:
    Status send(std::int64_t what);

    comm::Communicator &m_all;
    int m_server;
    std::int64_t m_answerBytes;
    Header m_header{};
    Header m_answer{};
    std::vector<std::byte> m_message;
    std::array<comm::Request, 4> m_requests; ///< header, message, version, answer
};

} // namespace planloom::runtime
