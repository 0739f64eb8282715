// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/switched_communicator.h"

#include "engine/base/log.h"
#include "executor/comm/pipe.h"

#include <array>
#include <numeric>

namespace planloom::comm {

namespace {

/// Between two hosts: another pipe's bytes, in the switch's time.
class SwitchedPipe final : public Pipe {
public:
    SwitchedPipe(std::unique_ptr<Pipe> inner, SwitchEnd &end, int peer, std::int64_t stream)
        : m_inner(std::move(inner)),
          m_end(end),
          m_peer(peer),
          m_stream(stream)
    {
    }

    Status send(const std::byte *data, std::int64_t bytes, const Label &label) override
    {
        m_numbers[static_cast<std::size_t>(m_sendsGiven++ % kWindow)] = m_end.enter(m_peer, m_stream, bytes);
        return m_inner->send(data, bytes, label);
    }

    Status receive(const Incoming &piece, const Label &label) override
    {
        ++m_receivesGiven;
        return m_inner->receive(piece, label);
    }

    Status progress() override
    {
        const Status status = m_inner->progress();
        while (m_sendsDone < m_inner->sendsDone()
               && m_end.hasLeft(m_peer, m_numbers[static_cast<std::size_t>(m_sendsDone % kWindow)]))
            ++m_sendsDone;
        while (m_receivesDone < m_inner->receivesDone() && m_end.hasCome(m_peer, m_stream, m_receivesDone))
            ++m_receivesDone;
        return status;
    }

private:
    std::unique_ptr<Pipe> m_inner;
    SwitchEnd &m_end;
    int m_peer;
    std::int64_t m_stream;
    std::array<std::int64_t, kWindow> m_numbers{}; ///< of sends under way, among all to the peer
};

std::int64_t steadyNow()
{
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

} // namespace

SwitchEnd::SwitchEnd(SwitchTable table, SwitchClock clock, int rank, int ranks)
    : m_table(table),
      m_clock(std::move(clock)),
      m_rank(rank),
      m_peers(static_cast<std::size_t>(ranks))
{
}

std::int64_t SwitchEnd::enter(int peer, std::int64_t stream, std::int64_t bytes)
{
    Peer &to = m_peers[static_cast<std::size_t>(peer)];
    to.late.push_back({stream, bytesOnWire(bytes)});
    goOn(peer);
    return to.given++;
}

void SwitchEnd::goOn(int peer)
{
    std::deque<Late> &late = m_peers[static_cast<std::size_t>(peer)].late;
    while (!late.empty() && m_table.enter(m_rank, peer, late.front().stream, late.front().wireBytes, m_clock()))
        late.pop_front();
}

void SwitchEnd::goOn()
{
    for (std::size_t peer = 0; peer < m_peers.size(); ++peer)
        goOn(static_cast<int>(peer));
}

bool SwitchEnd::hasLeft(int peer, std::int64_t number)
{
    goOn(peer);
    return m_table.sent(m_rank, peer, m_clock()) > number;
}

bool SwitchEnd::hasCome(int peer, std::int64_t stream, std::int64_t number)
{
    auto &come = m_peers[static_cast<std::size_t>(peer)].come;
    const std::int64_t now = m_clock();
    for (auto taken = m_table.take(peer, m_rank, now); taken; taken = m_table.take(peer, m_rank, now))
        ++come[*taken];
    return come[stream] > number;
}

SwitchedCommunicator::SwitchedCommunicator(std::unique_ptr<PipeCommunicator> inner, SwitchTable table,
                                           SwitchClock clock, SharedTable memory)
    : m_inner(std::move(inner)),
      m_memory(std::move(memory)),
      m_end(table, std::move(clock), m_inner->rank(), m_inner->size()),
      m_received(static_cast<std::size_t>(m_inner->size()))
{
}

SwitchedCommunicator::~SwitchedCommunicator() { dropCollectives(); }

Result<std::unique_ptr<Communicator>> SwitchedCommunicator::open(std::unique_ptr<PipeCommunicator> inner,
                                                                 const SwitchSettings &settings)
{
    constexpr std::chrono::seconds kDeadline{60};
    const int ranks = inner->size();
    if (ranks > settings.hosts && ranks % settings.hosts != 0)
        return badInput("PLANLOOM_EMULATED_NETWORK: " + std::to_string(ranks) + " ranks cannot be spread evenly over "
                        + std::to_string(settings.hosts) + " hosts; choose hosts that divide the ranks");
    auto memory = SharedTable::open(*inner, SwitchTable::bytesFor(ranks, settings.hosts), 0, kDeadline,
                                    [&](std::byte *table) { SwitchTable::prepare(table, settings, ranks); });
    if (!memory)
        return memory.error();
    if (inner->rank() == 0)
        log(LogLevel::Warning,
            "the network between ranks is emulated, not real: " + std::to_string(settings.hosts)
                + " hosts behind ports of " + std::to_string(static_cast<std::int64_t>(settings.bytesPerSecond / 1000))
                + " kB/s (PLANLOOM_EMULATED_NETWORK)");
    const SwitchTable table(memory->data());
    auto made = std::make_unique<SwitchedCommunicator>(std::move(inner), table, steadyNow, *std::move(memory));
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    if (const Result<Group> world = made->makeGroup(all); !world)
        return world.error();
    return std::unique_ptr<Communicator>(std::move(made));
}

Request SwitchedCommunicator::keep(const Message &message)
{
    if (m_free.empty()) {
        m_free.push_back(static_cast<std::int32_t>(m_messages.size()));
        m_messages.emplace_back();
    }
    const Request request{m_free.back()};
    m_free.pop_back();
    m_messages[static_cast<std::size_t>(request.slot)] = message;
    return request;
}

Result<Request> SwitchedCommunicator::isend(const void *data, std::int64_t bytes, int peer, int tag)
{
    const bool passes = m_end.passes(peer);
    const std::int64_t number = passes ? m_end.enter(peer, tag, bytes) : 0;
    const Result<Request> inner = m_inner->isend(data, bytes, peer, tag);
    if (!inner)
        return inner.error();
    return keep({*inner, peer, tag, number, passes, true});
}

Result<Request> SwitchedCommunicator::irecv(void *data, std::int64_t bytes, int peer, int tag)
{
    const Result<Request> inner = m_inner->irecv(data, bytes, peer, tag);
    if (!inner)
        return inner.error();
    return keep({*inner, peer, tag, m_received[static_cast<std::size_t>(peer)][tag]++, m_end.passes(peer), false});
}

Result<bool> SwitchedCommunicator::testMessage(Request &request)
{
    if (!request.pending())
        return true;
    Message &message = m_messages[static_cast<std::size_t>(request.slot)];
    if (!message.inner.pending()) { // it waits for the switch: others move on meanwhile
        if (const Status status = m_inner->progressMessages(); !status)
            return status.error();
    }
    const Result<bool> done = m_inner->test(message.inner);
    if (!done || !*done)
        return done;
    if (message.passes
        && !(message.sends ? m_end.hasLeft(message.peer, message.number)
                           : m_end.hasCome(message.peer, message.stream, message.number)))
        return false;
    m_free.push_back(request.slot);
    request.slot = -1;
    return true;
}

Status SwitchedCommunicator::progressMessages()
{
    m_end.goOn();
    return m_inner->progressMessages();
}

/// Streams of groups are below zero, tags are not.
Result<std::vector<std::unique_ptr<Pipe>>> SwitchedCommunicator::makePipes(std::int32_t group,
                                                                           std::span<const int> ranks)
{
    auto pipes = m_inner->makePipes(group, ranks);
    for (std::size_t i = 0; pipes && i < pipes->size(); ++i) {
        std::unique_ptr<Pipe> &pipe = (*pipes)[i];
        if (pipe && m_end.passes(ranks[i]))
            pipe = std::make_unique<SwitchedPipe>(std::move(pipe), m_end, ranks[i], -1 - std::int64_t{group});
    }
    return pipes;
}

} // namespace planloom::comm
