// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/paced_network.h"

#include "executor/runtime/sampled_messages.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

namespace planloom::runtime {
namespace {

constexpr std::int64_t kNone = -1000; ///< no iteration; held-out samples have -1
constexpr std::int32_t kWaiting = 8;  ///< messages of a connection that may be entered ahead

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

/// A process that ends while it has the lock leaves the table as it is: what it had entered is carried.
class PacedNetwork::Lock {
public:
    explicit Lock(pthread_mutex_t &mutex) : m_mutex(mutex)
    {
        if (pthread_mutex_lock(&m_mutex) == EOWNERDEAD)
            pthread_mutex_consistent(&m_mutex);
    }
    ~Lock() { pthread_mutex_unlock(&m_mutex); }
    Lock(const Lock &) = delete;
    Lock &operator=(const Lock &) = delete;

private:
    pthread_mutex_t &m_mutex;
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
    const bool first = comm.rank() == 0;
    SharedPath own{};
    if (first) {
        auto file = comm::MemoryFile::create(bytes);
        if (!file)
            return file.error();
        made->m_file = *std::move(file);
        auto memory = comm::SharedMemory::ofFile(made->m_file.descriptor(), 0, bytes);
        if (!memory)
            return memory.error();
        made->m_memory = *std::move(memory);
        made->share(made->m_memory.data(), true);
        std::strncpy(own.data(), made->m_file.pathToShare().c_str(), own.size() - 1);
    }
    const auto path = sharePath(comm, own, deadline);
    if (!path)
        return path.error();
    if (first)
        return made;
    const auto file = comm::MemoryFile::open(path->data());
    if (!file)
        return file.error();
    auto memory = comm::SharedMemory::ofFile(file->descriptor(), 0, bytes);
    if (!memory)
        return memory.error();
    made->m_memory = *std::move(memory);
    made->share(made->m_memory.data(), false);
    return made;
}

/// @p memory is zero where this process is the @p first one.
void PacedNetwork::share(std::byte *memory, bool first)
{
    static_assert(sizeof(Table) % alignof(Line) == 0);
    m_table = reinterpret_cast<Table *>(memory);
    m_lines = reinterpret_cast<Line *>(memory + sizeof(Table));
    if (!first)
        return;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&m_table->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

std::optional<double> PacedNetwork::enter(std::int32_t connection, std::int64_t iteration, std::int64_t bytes,
                                          std::int64_t now)
{
    const Lock lock(m_table->mutex);
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
    const Lock lock(m_table->mutex);
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
