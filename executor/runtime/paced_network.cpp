// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/paced_network.h"

#include "executor/runtime/sampled_messages.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace planloom::runtime {
namespace {

constexpr std::int64_t kShift = 2; ///< held-out samples have iteration -1
using SharedPath = std::array<char, 64>;

/// Rank 0's file, as the others open it.
Result<SharedPath> sharePath(comm::Communicator &comm, const SharedPath &own, std::chrono::nanoseconds deadline)
{
    SharedPath path = own;
    const auto finish = [&](Result<comm::Request> request) -> Status {
        return request ? comm.wait(*request, deadline, "the paced network's memory") : Status(request.error());
    };
    if (comm.rank() != 0) {
        const Status came = finish(comm.irecv(path.data(), sizeof path, 0, kNetworkTag));
        return came ? Result<SharedPath>(path) : Result<SharedPath>(came.error());
    }
    for (int peer = 1; peer < comm.size(); ++peer) {
        if (const Status left = finish(comm.isend(path.data(), sizeof path, peer, kNetworkTag)); !left)
            return left.error();
    }
    return path;
}

} // namespace

PacedNetwork::PacedNetwork(const gnn::Job &job, const gnn::Network &network, const gnn::Placement &machineOf,
                           gnn::TransferPolicy policy)
    : m_ports(gnn::portsOf(job)),
      m_rates(m_ports, network.connections.size()),
      m_seen(network.connections.size()),
      m_sent(network.connections.size())
{
    m_rates.reset(network.connections, machineOf, policy);
    std::vector<char> counted(network.connections.size());
    for (std::size_t step = 0; step < network.steps(); ++step) {
        const std::int32_t connection = network.connection[step];
        if (connection != gnn::Network::kTask && network.amount[step] > 0
            && std::exchange(counted[static_cast<std::size_t>(connection)], 1) == 0)
            m_rates.carries(connection);
    }
}

Result<std::unique_ptr<PacedNetwork>> PacedNetwork::open(comm::Communicator &comm, const gnn::Job &job,
                                                         const gnn::Network &network, const gnn::Placement &machineOf,
                                                         gnn::TransferPolicy policy, std::chrono::nanoseconds deadline)
{
    if (comm.localSize() != comm.size())
        return badInput("the network is paced by memory that all processes of the job share, and they are on several "
                        "machines; leave out --paced");
    std::unique_ptr<PacedNetwork> made(new PacedNetwork(job, network, machineOf, policy));
    static_assert(std::atomic<std::int64_t>::is_always_lock_free);
    const auto bytes =
        static_cast<std::int64_t>(std::max<std::size_t>(1, network.connections.size()) * sizeof(std::int64_t));
    SharedPath own{};
    if (comm.rank() == 0) {
        auto file = comm::MemoryFile::create(bytes);
        if (!file)
            return file.error();
        made->m_file = *std::move(file);
        std::strncpy(own.data(), made->m_file.pathToShare().c_str(), own.size() - 1);
    }
    const auto path = sharePath(comm, own, deadline);
    if (!path)
        return path.error();
    comm::MemoryFile opened;
    if (comm.rank() != 0) {
        auto file = comm::MemoryFile::open(path->data());
        if (!file)
            return file.error();
        opened = *std::move(file);
    }
    const int descriptor = comm.rank() == 0 ? made->m_file.descriptor() : opened.descriptor();
    auto memory = comm::SharedMemory::ofFile(descriptor, 0, bytes);
    if (!memory)
        return memory.error();
    made->m_memory = *std::move(memory);
    made->m_active = reinterpret_cast<std::atomic<std::int64_t> *>(made->m_memory.data());
    return made;
}

void PacedNetwork::begin(std::int32_t connection, std::int64_t iteration, std::int64_t now)
{
    const auto i = static_cast<std::size_t>(connection);
    update(now);
    m_sent[i] = 0;
    m_active[i].store(iteration + kShift, std::memory_order_release);
    m_own.push_back(connection);
    update(now);
}

void PacedNetwork::end(std::int32_t connection)
{
    m_active[static_cast<std::size_t>(connection)].store(0, std::memory_order_release);
    std::erase(m_own, connection);
}

double PacedNetwork::mayHaveSent(std::int32_t connection, std::int64_t now)
{
    update(now);
    return m_sent[static_cast<std::size_t>(connection)];
}

/// Counts what own messages may send until @p now, then asks for the rates of what is active by now.
void PacedNetwork::update(std::int64_t now)
{
    const double seconds = static_cast<double>(now - m_updated) * 1e-9;
    m_updated = now;
    for (const std::int32_t connection : m_own) {
        if (m_seen[static_cast<std::size_t>(connection)] != 0)
            m_sent[static_cast<std::size_t>(connection)] += m_rates.rate(connection) * seconds;
    }
    for (std::size_t i = 0; i < m_seen.size(); ++i) {
        const std::int64_t active = m_active[i].load(std::memory_order_acquire);
        if (active == m_seen[i])
            continue;
        const auto connection = static_cast<std::int32_t>(i);
        if (m_seen[i] != 0)
            m_rates.deactivate(connection);
        if (active != 0)
            m_rates.activate(connection, static_cast<std::int32_t>(active - kShift));
        m_seen[i] = active;
    }
    m_rates.update();
}

} // namespace planloom::runtime
