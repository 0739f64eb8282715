// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/role_link.h"

#include "executor/runtime/clock.h"

#include <fmt/format.h>

#include <algorithm>

namespace planloom::runtime {
namespace {

/// Chunks of one process that are under way on a network that is not paced: enough to fill it while the process
/// computes, and few, so that one that becomes urgent does not wait behind many.
constexpr int kLeaving = 64;

} // namespace

RoleLink::RoleLink(const program::Program &program, comm::Communicator &comm, std::int64_t chunkBytes,
                   trace::Sink &sink, std::int64_t spins)
    : m_program(program),
      m_comm(comm),
      m_sink(sink),
      m_rows(program),
      m_network(gnn::networkOf(program.sampled->job)),
      m_chunkBytes(chunkBytes),
      m_moved(monotonicNanoseconds()),
      m_rest(comm, spins)
{
    const program::SampledRoles &roles = *program.sampled;
    if (roles.transfers == gnn::TransferPolicy::Static)
        m_shares = gnn::staticShares(m_network, gnn::portsOf(roles.job), roles.machineOf);
}

Status RoleLink::pace(std::chrono::nanoseconds deadline)
{
    const program::SampledRoles &roles = *m_program.sampled;
    auto paced = PacedNetwork::open(m_comm, roles.job, m_network, roles.machineOf, roles.transfers, deadline);
    if (!paced)
        return paced.error();
    m_paced = *std::move(paced);
    return {};
}

std::int64_t RoleLink::now() const { return monotonicNanoseconds() - m_origin; }

void RoleLink::record(std::int32_t row, std::int64_t step, std::int64_t started)
{
    if (row < 0 || step < 0)
        return;
    trace::Record record;
    record.start = started;
    record.duration = now() - started;
    record.task = row;
    record.step = static_cast<std::int32_t>(step);
    record.rank = m_comm.rank();
    record.lane = m_rows.rows()[static_cast<std::size_t>(row - m_rows.first())].lane;
    m_sink.write(record);
}

std::int32_t RoleLink::connectionOf(int from, int to) const
{
    const gnn::Job &job = m_program.sampled->job;
    for (std::size_t i = 0; i < m_network.connections.size(); ++i) {
        const gnn::Connection &ends = m_network.connections[i];
        if (program::rankOfRole(job, ends.from) == from && program::rankOfRole(job, ends.to) == to)
            return static_cast<std::int32_t>(i);
    }
    return -1;
}

Result<Ticket> RoleLink::send(const void *data, std::int64_t bytes, int peer, int tag, std::int64_t step,
                              std::int32_t row)
{
    Transfer transfer;
    transfer.out = static_cast<const std::byte *>(data);
    transfer.bytes = bytes;
    transfer.peer = peer;
    transfer.tag = tag;
    transfer.step = step;
    transfer.row = row;
    transfer.connection = connectionOf(m_comm.rank(), peer);
    return start(std::move(transfer));
}

Result<Ticket> RoleLink::sendAhead(const void *data, std::int64_t bytes, int peer, int tag)
{
    Transfer transfer;
    transfer.out = static_cast<const std::byte *>(data);
    transfer.bytes = bytes;
    transfer.peer = peer;
    transfer.tag = tag;
    return start(std::move(transfer));
}

Result<Ticket> RoleLink::receiveAhead(void *data, std::int64_t bytes, int peer, int tag)
{
    Transfer transfer;
    transfer.in = static_cast<std::byte *>(data);
    transfer.bytes = bytes;
    transfer.peer = peer;
    transfer.tag = tag;
    return start(std::move(transfer));
}

Result<Ticket> RoleLink::receive(void *data, std::int64_t bytes, int peer, int tag, std::int64_t step, std::int32_t row)
{
    Transfer transfer;
    transfer.in = static_cast<std::byte *>(data);
    transfer.bytes = bytes;
    transfer.peer = peer;
    transfer.tag = tag;
    transfer.step = step;
    transfer.row = row;
    transfer.connection = connectionOf(peer, m_comm.rank());
    return start(std::move(transfer));
}

Result<Ticket> RoleLink::start(Transfer transfer)
{
    if (transfer.bytes == 0)
        return Ticket{};
    transfer.started = now();
    if (m_free.empty()) {
        m_free.push_back(static_cast<std::int32_t>(m_transfers.size()));
        m_transfers.emplace_back();
    }
    const std::int32_t slot = m_free.back();
    m_free.pop_back();
    m_live.push_back(slot);
    Transfer &made = m_transfers[static_cast<std::size_t>(slot)];
    made = std::move(transfer);
    if (made.in != nullptr || made.connection < 0) {
        const std::int64_t piece = made.connection < 0 ? made.bytes : m_chunkBytes;
        while (made.given < made.bytes) {
            if (const Status given = give(made, std::min(piece, made.bytes - made.given)); !given)
                return given.error();
        }
        return Ticket{slot};
    }
    queueOf(made.connection).waiting.push_back(slot);
    const Status gone = giveChunks();
    return gone ? Result<Ticket>(Ticket{slot}) : gone.error();
}

RoleLink::Queue &RoleLink::queueOf(std::int32_t connection)
{
    const auto known = std::ranges::find(m_queues, connection, &Queue::connection);
    if (known != m_queues.end())
        return *known;
    Queue &queue = m_queues.emplace_back();
    queue.connection = connection;
    const auto index = static_cast<std::size_t>(connection);
    if (!m_shares.empty() && m_shares[index] > 0) {
        const program::SampledRoles &roles = *m_program.sampled;
        const gnn::Connection &ends = m_network.connections[index];
        const auto cardOf = [&](std::int32_t role) -> const gnn::Port & {
            const auto machine = static_cast<std::size_t>(roles.machineOf[static_cast<std::size_t>(role)]);
            return roles.job.machines[machine].port;
        };
        queue.share = m_shares[index];
        queue.line = std::min(cardOf(ends.from).out, cardOf(ends.to).in);
    }
    return queue;
}

Status RoleLink::give(Transfer &transfer, std::int64_t bytes)
{
    const Result<comm::Request> request = transfer.in != nullptr
        ? m_comm.irecv(transfer.in + transfer.given, bytes, transfer.peer, transfer.tag)
        : m_comm.isend(transfer.out + transfer.given, bytes, transfer.peer, transfer.tag);
    if (!request)
        return request.error();
    transfer.chunks.push_back(*request);
    transfer.given += bytes;
    m_leaving += transfer.in == nullptr ? 1 : 0;
    return {};
}

/// True once the queue's first message has begun. On a paced network those behind it are entered, too.
bool RoleLink::begins(Queue &queue)
{
    if (queue.waiting.empty())
        return false;
    if (m_paced && m_paced->paces(queue.connection)) {
        for (std::size_t i = queue.entered; i < queue.waiting.size(); ++i) {
            Transfer &next = m_transfers[static_cast<std::size_t>(queue.waiting[i])];
            const auto before = m_paced->enter(queue.connection, next.step, next.bytes, monotonicNanoseconds());
            if (!before)
                break;
            next.before = *before;
            ++queue.entered;
        }
        if (queue.entered == 0)
            return false;
    }
    Transfer &first = m_transfers[static_cast<std::size_t>(queue.waiting.front())];
    if (!first.begun) {
        first.begun = true;
        // A process that looks late loses nothing of its share: the message has begun when it could have.
        queue.since = std::max(queue.since, static_cast<double>(first.started));
        first.started = now();
    }
    return true;
}

/// Whether the next chunk of the queue's first message may leave.
bool RoleLink::mayGive(const Queue &queue)
{
    const Transfer &first = m_transfers[static_cast<std::size_t>(queue.waiting.front())];
    const std::int64_t next = std::min(first.bytes, first.given + m_chunkBytes);
    if (!m_paced) {
        // The network carries a chunk at its own rate: so much later it leaves, to be there when its share ends.
        const double early = queue.share > 0 ? 1e9 * static_cast<double>(next - first.given) / queue.line : 0;
        return m_leaving < kLeaving && static_cast<double>(now()) >= shareCarries(queue, next) - early;
    }
    if (!m_paced->paces(queue.connection))
        return true;
    return m_paced->carried(queue.connection, monotonicNanoseconds()) >= first.before + static_cast<double>(next);
}

/// When the queue's share has carried so many bytes of its first message, nanoseconds of now().
double RoleLink::shareCarries(const Queue &queue, std::int64_t bytes) const
{
    return queue.share > 0 ? queue.since + 1e9 * static_cast<double>(bytes) / queue.share : 0;
}

/// The queue whose chunk leaves next, by the transfer policy; past the last one: none may.
std::size_t RoleLink::nextQueue()
{
    const bool byIteration = m_program.sampled->transfers == gnn::TransferPolicy::IterationFirst;
    std::size_t best = m_queues.size();
    for (std::size_t i = 1; i <= m_queues.size(); ++i) {
        const std::size_t at = (m_turn + i) % m_queues.size();
        Queue &queue = m_queues[at];
        if (!begins(queue) || !mayGive(queue))
            continue;
        const auto urgency = [this](const Queue &of) {
            return std::pair(m_transfers[static_cast<std::size_t>(of.waiting.front())].step, of.connection);
        };
        if (best == m_queues.size() || urgency(queue) < urgency(m_queues[best]))
            best = at;
        if (!byIteration)
            break;
    }
    return best;
}

Status RoleLink::giveChunks()
{
    while (!m_queues.empty()) {
        const std::size_t at = nextQueue();
        if (at == m_queues.size())
            return {};
        m_turn = at;
        Queue &queue = m_queues[at];
        Transfer &first = m_transfers[static_cast<std::size_t>(queue.waiting.front())];
        if (const Status given = give(first, std::min(m_chunkBytes, first.bytes - first.given)); !given)
            return given;
        moved();
        if (first.given < first.bytes)
            continue;
        queue.since = shareCarries(queue, first.bytes);
        queue.waiting.pop_front();
        queue.entered -= queue.entered > 0 ? 1 : 0;
    }
    return {};
}

Status RoleLink::poll(Transfer &transfer)
{
    while (transfer.chunksDone < transfer.chunks.size()) {
        const Result<bool> done = m_comm.test(transfer.chunks[transfer.chunksDone]);
        if (!done)
            return done.error();
        if (!*done)
            return {};
        ++transfer.chunksDone;
        m_leaving -= transfer.in == nullptr ? 1 : 0;
        moved();
    }
    if (transfer.given == transfer.bytes)
        finish(transfer);
    return {};
}

void RoleLink::finish(Transfer &transfer)
{
    transfer.done = true;
    record(transfer.row, transfer.step, transfer.started);
}

Status RoleLink::advance()
{
    for (std::size_t i = 0; i < m_live.size();) {
        Transfer &transfer = m_transfers[static_cast<std::size_t>(m_live[i])];
        if (const Status polled = poll(transfer); !polled)
            return polled;
        if (!transfer.done) {
            ++i;
            continue;
        }
        m_live[i] = m_live.back();
        m_live.pop_back();
    }
    return giveChunks();
}

Result<bool> RoleLink::test(Ticket &ticket)
{
    if (!ticket.pending())
        return true;
    if (const Status moved = advance(); !moved)
        return moved.error();
    if (!m_transfers[static_cast<std::size_t>(ticket.slot)].done)
        return false;
    m_free.push_back(ticket.slot);
    ticket.slot = -1;
    return true;
}

Status RoleLink::wait(Ticket &ticket, std::chrono::nanoseconds deadline, std::string_view what)
{
    if (!ticket.pending())
        return {};
    m_transfers[static_cast<std::size_t>(ticket.slot)].started = now();
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (true) {
        const Result<bool> done = test(ticket);
        if (!done)
            return done.error();
        if (*done)
            return {};
        if (std::chrono::steady_clock::now() > end) {
            const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(deadline).count();
            return failed(
                fmt::format("rank {} waited {} s for {}; look at the other ranks' messages and at the network "
                            "between the machines",
                            m_comm.rank(), seconds, what));
        }
        rest();
    }
}

void RoleLink::moved()
{
    m_moved = monotonicNanoseconds();
    m_rest.moved();
}

void RoleLink::rest()
{
    constexpr std::int64_t kSpinTimed = 20'000; // nanoseconds
    const std::int64_t idle = monotonicNanoseconds() - m_moved;
    const bool timed = m_paced || !m_shares.empty(); // nothing rings when the next chunk may leave
    if (!timed)
        m_rest.idle(idle);
    else if (idle < kSpinTimed)
        m_rest.look();
    else
        restWhileIdle(idle);
}

} // namespace planloom::runtime
