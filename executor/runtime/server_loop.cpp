// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/server_loop.h"

#include "executor/runtime/sampled_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace planloom::runtime {
namespace {

int tagOf(std::int64_t part) { return kServedTag + static_cast<int>(part); }

} // namespace

ServerLoop::ServerLoop(RoleLink &link, std::vector<Worker> workers, std::chrono::nanoseconds deadline)
    : m_link(link),
      m_deadline(deadline)
{
    for (Worker &worker : workers)
        m_peers.push_back({std::move(worker), State::Listens, {}, {}});
}

Status ServerLoop::run(ServerWork &work)
{
    for (Peer &peer : m_peers) {
        if (Status listens = listen(peer); !listens)
            return listens;
    }
    auto idleSince = std::chrono::steady_clock::now();
    const auto ended = [](const Peer &peer) { return peer.state == State::Ended; };
    while (!std::ranges::all_of(m_peers, ended) || !m_answers.empty()) {
        const Result<bool> left = leave();
        if (!left)
            return left.error();
        bool moved = *left;
        for (std::size_t worker = 0; worker < m_peers.size(); ++worker) {
            const Result<bool> went = advance(static_cast<int>(worker), work);
            if (!went)
                return went.error();
            moved = moved || *went;
        }
        const auto now = std::chrono::steady_clock::now();
        if (moved)
            idleSince = now;
        else if (now - idleSince > kIdleDeadlines * m_deadline)
            return failed(silent(work));
        else
            m_link.rest();
    }
    return {};
}

std::string ServerLoop::silent(const ServerWork &work) const
{
    std::vector<int> missing = work.waitedFor();
    for (std::size_t worker = 0; missing.empty() && worker < m_peers.size(); ++worker) {
        if (m_peers[worker].state == State::Reads) // its data did not follow
            missing.push_back(static_cast<int>(worker));
    }
    std::string names;
    for (std::size_t worker = 0; worker < m_peers.size(); ++worker) {
        const bool named = missing.empty() ? m_peers[worker].state != State::Ended
                                           : std::ranges::count(missing, static_cast<int>(worker)) > 0;
        if (named)
            names += (names.empty() ? "" : ", ") + m_peers[worker].who.name;
    }
    return fmt::format("{} sent this server nothing for too long; look at the other ranks' messages", names);
}

Status ServerLoop::listen(Peer &peer)
{
    peer.state = State::Listens;
    auto ticket = m_link.receive(&peer.request, sizeof peer.request, peer.who.rank, kAskTag, -1, -1);
    if (!ticket)
        return ticket.error();
    peer.ticket = *ticket;
    return {};
}

/// True if the worker's message has come, and the next one is awaited.
Result<bool> ServerLoop::advance(int worker, ServerWork &work)
{
    Peer &peer = m_peers[static_cast<std::size_t>(worker)];
    if (peer.state == State::Ended)
        return false;
    const Result<bool> came = m_link.test(peer.ticket);
    if (!came || !*came)
        return came;
    if (peer.state == State::Listens) {
        const Status reads = read(worker, work);
        return reads ? Result<bool>(true) : reads.error();
    }
    if (Status taken = work.arrived(worker, peer.request); !taken)
        return taken.error();
    const Status listens = listen(peer);
    return listens ? Result<bool>(true) : listens.error();
}

Status ServerLoop::read(int worker, ServerWork &work)
{
    Peer &peer = m_peers[static_cast<std::size_t>(worker)];
    if (peer.request.kind == ServerRequest::kEnd) {
        peer.state = State::Ended;
        return {};
    }
    const auto room = work.room(worker, peer.request);
    if (!room)
        return room.error();
    peer.state = State::Reads;
    auto ticket = m_link.receive(room->data(), static_cast<std::int64_t>(room->size()), peer.who.rank,
                                 tagOf(peer.request.part), peer.request.step, peer.who.dataRow);
    if (!ticket)
        return ticket.error();
    peer.ticket = *ticket; // without data it is done at once
    return {};
}

Status ServerLoop::answer(int worker, std::int64_t part, std::span<const std::byte> data, std::int64_t step,
                          bool recorded)
{
    const Worker &who = m_peers[static_cast<std::size_t>(worker)].who;
    auto ticket = m_link.send(data.data(), static_cast<std::int64_t>(data.size()), who.rank, tagOf(part), step,
                              recorded ? who.answerRow : -1);
    if (!ticket)
        return ticket.error();
    m_answers.push_back({worker, part, *ticket});
    return {};
}

Result<bool> ServerLoop::leave()
{
    bool moved = false;
    for (std::size_t i = 0; i < m_answers.size();) {
        const Result<bool> left = m_link.test(m_answers[i].ticket);
        if (!left)
            return left;
        if (!*left) {
            ++i;
            continue;
        }
        m_answers[i] = m_answers.back();
        m_answers.pop_back();
        moved = true;
    }
    return moved;
}

Status ServerLoop::answered(std::int64_t part)
{
    for (Answer &answer : m_answers) {
        if (answer.part != part)
            continue;
        const std::string &name = m_peers[static_cast<std::size_t>(answer.worker)].who.name;
        if (Status left = m_link.wait(answer.ticket, m_deadline, "trainer " + name); !left)
            return left;
    }
    return {};
}

Status ServerCall::start(RoleLink &link, int server, const ServerRequest &request, std::span<const std::byte> data,
                         std::span<std::byte> answer, std::int32_t dataRow, std::int32_t answerRow)
{
    m_request = request;
    const int tag = tagOf(request.part);
    const Result<Ticket> started[] = {
        link.send(&m_request, sizeof m_request, server, kAskTag, request.step, -1),
        link.send(data.data(), static_cast<std::int64_t>(data.size()), server, tag, request.step, dataRow),
        link.receive(answer.data(), static_cast<std::int64_t>(answer.size()), server, tag, request.step, answerRow)};
    for (std::size_t i = 0; i < std::size(started); ++i) {
        if (!started[i])
            return started[i].error();
        m_tickets[i] = *started[i];
    }
    return {};
}

Result<bool> ServerCall::test(RoleLink &link)
{
    for (Ticket &ticket : m_tickets) {
        const Result<bool> done = link.test(ticket);
        if (!done || !*done)
            return done;
    }
    return true;
}

Status ServerCall::wait(RoleLink &link, std::chrono::nanoseconds deadline, const std::string &server)
{
    for (Ticket &ticket : m_tickets) {
        if (Status done = link.wait(ticket, deadline, "parameter server " + server); !done)
            return done;
    }
    return {};
}

} // namespace planloom::runtime
