// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/paced_network.h"

#include "executor/runtime/sampled_messages.h"

#include <algorithm>
#include <limits>

namespace planloom::runtime {
namespace {

constexpr std::int64_t kNone = -1000; ///< no iteration; held-out samples have -1
constexpr std::int32_t kWaiting = 8;  ///< messages of a connection that may be entered ahead

} // namespace

/// What processes share, and behind it a line for each connection.
struct PacedNetwork::Table {
    pthread_mutex_t mutex;
    double time; ///< seconds: all lines are as they are then
};

struct PacedNetwork::Line {
    struct Message {
        std::int64_t iteration;
        double end; ///< bytes of the connection by when it has been carried
    };
    double entered; ///< bytes of all messages
    double carried; ///< of them
    std::int32_t first;
    std::int32_t count;
    Message waiting[kWaiting]; ///< a ring; the first one is carried

    [[nodiscard]] const Message &front() const { return waiting[first]; }
    void pop()
    {
        carried = front().end;
        first = (first + 1) % kWaiting;
        --count;
    }
};

PacedNetwork::PacedNetwork(const gnn::Job &job, const gnn::Network &network, const gnn::Placement &machineOf,
                           gnn::TransferPolicy policy)
    : m_ports(gnn::portsOf(job)),
      m_rates(m_ports, network.connections.size()),
      m_active(network.connections.size(), kNone),
      m_ends(network.connections.size())
{
    m_rates.reset(network.connections, machineOf, policy);
    for (std::size_t i = 0; i < network.connections.size(); ++i) {
        if (!m_rates.isLocal(static_cast<std::int32_t>(i)))
            m_paced.push_back(static_cast<std::int32_t>(i));
    }
    m_rates.carries(network);
}

Result<std::unique_ptr<PacedNetwork>> PacedNetwork::open(comm::Communicator &comm, const gnn::Job &job,
                                                         const gnn::Network &network, const gnn::Placement &machineOf,
                                                         gnn::TransferPolicy policy, std::chrono::nanoseconds deadline)
{
    if (comm.localSize() != comm.size())
        return badInput("the network is paced by memory that all processes of the job share, and they are on several "
                        "machines; leave out --paced");
    std::unique_ptr<PacedNetwork> made(new PacedNetwork(job, network, machineOf, policy));
    const auto bytes = static_cast<std::int64_t>(sizeof(Table) + network.connections.size() * sizeof(Line));
    auto memory = comm::SharedTable::open(comm, bytes, kNetworkTag, deadline, [](std::byte *table) {
        comm::makeShared(reinterpret_cast<Table *>(table)->mutex);
    });
    if (!memory)
        return memory.error();
    static_assert(sizeof(Table) % alignof(Line) == 0);
    made->m_memory = *std::move(memory);
    made->m_table = reinterpret_cast<Table *>(made->m_memory.data());
    made->m_lines = reinterpret_cast<Line *>(made->m_memory.data() + sizeof(Table));
    return made;
}

std::optional<double> PacedNetwork::enter(std::int32_t connection, std::int64_t iteration, std::int64_t bytes,
                                          std::int64_t now)
{
    const comm::SharedLock lock(m_table->mutex);
    advance(now);
    Line &line = m_lines[connection];
    if (line.count == kWaiting)
        return std::nullopt;
    const double before = line.entered;
    line.entered += static_cast<double>(bytes);
    line.waiting[(line.first + line.count) % kWaiting] = {iteration, line.entered};
    ++line.count;
    return before;
}

double PacedNetwork::carried(std::int32_t connection, std::int64_t now)
{
    const comm::SharedLock lock(m_table->mutex);
    advance(now);
    return m_lines[connection].carried;
}

/// Tells m_rates what each connection carries now.
void PacedNetwork::activate()
{
    for (const std::int32_t connection : m_paced) {
        const Line &line = m_lines[connection];
        std::int64_t &known = m_active[static_cast<std::size_t>(connection)];
        const std::int64_t iteration = line.count > 0 ? line.front().iteration : kNone;
        if (iteration == known)
            continue;
        if (known != kNone)
            m_rates.deactivate(connection);
        if (iteration != kNone)
            m_rates.activate(connection, static_cast<std::int32_t>(iteration));
        known = iteration;
    }
    m_rates.update();
}

/// From end to end of a message until @p now, which is the past where another process has looked since.
void PacedNetwork::advance(std::int64_t now)
{
    const double present = std::max(static_cast<double>(now) * 1e-9, m_table->time);
    while (true) {
        activate();
        double next = present;
        for (const std::int32_t connection : m_paced) {
            const Line &line = m_lines[connection];
            const double rate = m_rates.rate(connection);
            double &end = m_ends[static_cast<std::size_t>(connection)];
            end = std::numeric_limits<double>::infinity();
            if (line.count > 0 && rate > 0)
                end = m_table->time + (line.front().end - line.carried) / rate;
            next = std::min(next, end);
        }
        const double seconds = next - m_table->time;
        bool ended = false;
        for (const std::int32_t connection : m_paced) {
            Line &line = m_lines[connection];
            if (line.count == 0)
                continue;
            line.carried = std::min(line.carried + m_rates.rate(connection) * seconds, line.front().end);
            if (m_ends[static_cast<std::size_t>(connection)] <= next) {
                line.pop();
                ended = true;
            }
        }
        m_table->time = next;
        if (!ended)
            return;
    }
}

} // namespace planloom::runtime
