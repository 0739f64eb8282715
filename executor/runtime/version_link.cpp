// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/version_link.h"

#include <cstring>

namespace planloom::runtime {

VersionLink::VersionLink(comm::Communicator &all, const program::ParameterServer &server, std::int64_t version)
    : m_all(all),
      m_server(all.size() - 1),
      m_answerBytes(server.answerBytes),
      m_answer{version, 0},
      m_message(static_cast<std::size_t>(server.messageBytes))
{
}

Status VersionLink::send(std::int64_t what)
{
    m_header = {what, m_answer[0]};
    const auto sent = m_all.isend(m_header.data(), sizeof m_header, m_server, kArrivalTag);
    if (!sent)
        return sent.error();
    m_requests[0] = *sent;
    return {};
}

Status VersionLink::start(std::byte *data)
{
    std::memcpy(m_message.data(), data, m_message.size());
    if (const Status sent = send(kArrives); !sent)
        return sent;
    const auto bytes = static_cast<std::int64_t>(m_message.size());
    const Result<comm::Request> started[] = {m_all.isend(m_message.data(), bytes, m_server, kMessageTag),
                                             m_all.irecv(m_answer.data(), sizeof m_answer, m_server, kVersionTag),
                                             m_all.irecv(data, m_answerBytes, m_server, kAnswerTag)};
    for (std::size_t i = 0; i < std::size(started); ++i) {
        if (!started[i])
            return started[i].error();
        m_requests[i + 1] = *started[i];
    }
    return {};
}

Result<bool> VersionLink::test()
{
    bool done = true;
    for (comm::Request &request : m_requests) {
        if (!request.pending())
            continue;
        const Result<bool> ended = m_all.test(request);
        if (!ended)
            return ended;
        done = done && *ended;
    }
    return done;
}

Status VersionLink::leave(std::chrono::nanoseconds deadline)
{
    const Status sent = send(kLeaves);
    return sent ? m_all.wait(m_requests[0], deadline, "the parameter server") : sent;
}

} // namespace planloom::runtime
