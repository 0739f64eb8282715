// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/scheduler.h"

#include <algorithm>
#include <limits>

namespace planloom::gnn {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

} // namespace

Scheduler::Scheduler(const Network &network, std::span<const Port> ports)
    : m_network(network),
      m_ports(ports),
      m_rates(ports, network.connections.size()),
      m_processors(ports),
      m_flows(network.connections.size()),
      m_finish(network.connections.size(), kNever),
      m_blockFinish((network.connections.size() + kFinishBlock - 1) / kFinishBlock, kNever),
      m_blockFirst(m_blockFinish.size())
{
    for (std::size_t block = 0; block < m_blockFirst.size(); ++block)
        m_blockFirst[block] = static_cast<std::int32_t>(block * kFinishBlock);
}

void Scheduler::reset(std::span<const std::int32_t> machineOf, TransferPolicy policy)
{
    m_now = 0;
    m_machineOf = machineOf;
    m_waits = m_network.waits;
    m_ready.clear();
    m_tasks.clear();
    m_processors.reset();
    std::fill(m_flows.begin(), m_flows.end(), Flow{});
    m_rates.reset(m_network.connections, machineOf, policy);
    if (policy == TransferPolicy::Static)
        m_rates.carries(m_network);
}

void Scheduler::release(std::span<const std::int32_t> steps)
{
    for (const std::int32_t step : steps) {
        if (--m_waits[at(step)] == 0)
            m_ready.push_back(step);
    }
}

void Scheduler::start(std::int32_t step)
{
    if (m_times != nullptr)
        m_times->start[at(step)] = m_now;
    release(m_network.startedBy(at(step)));
    const std::int32_t connection = m_network.connection[at(step)];
    const double amount = m_network.amount[at(step)];
    if (connection == Network::kTask)
        return compute(step, m_network.role[at(step)], m_network.secondsOf(at(step), m_ports, m_machineOf));
    if (amount <= 0)
        return end(step);
    if (!m_rates.isLocal(connection))
        return activate(step, connection);
    const double within = m_ports[at(m_rates.source(connection))].within;
    if (within > 0)
        compute(step, m_network.connections[at(connection)].from, amount / within);
    else
        end(step);
}

void Scheduler::compute(std::int32_t step, std::int32_t role, double seconds)
{
    const Port *port = role < 0 ? nullptr : &m_ports[at(m_machineOf[at(role)])];
    if (port != nullptr && port->processor >= 0)
        return m_processors.start(step, port->processor, seconds, m_network.trains[at(step)] ? port->trainerThreads : 1,
                                  m_now);
    m_tasks.push_back({m_now + seconds, step});
    std::push_heap(m_tasks.begin(), m_tasks.end());
}

void Scheduler::end(std::int32_t step)
{
    if (m_times != nullptr)
        m_times->end[at(step)] = m_now;
    release(m_network.laterOf(at(step)));
}

void Scheduler::drain()
{
    while (!m_ready.empty()) {
        const std::int32_t step = m_ready.back();
        m_ready.pop_back();
        start(step);
    }
}

void Scheduler::activate(std::int32_t step, std::int32_t connection)
{
    Flow &flow = m_flows[at(connection)];
    flow.step = step;
    flow.left = m_network.amount[at(step)];
    flow.since = m_now;
    flow.rate = 0;
    m_rates.activate(connection, m_network.iteration[at(step)]);
}

void Scheduler::deactivate(std::int32_t connection)
{
    m_rates.deactivate(connection);
    setFinish(connection, kNever);
    m_flows[at(connection)].step = -1;
}

void Scheduler::setRate(std::int32_t connection, double rate)
{
    Flow &flow = m_flows[at(connection)];
    if (rate == flow.rate)
        return;
    flow.left = std::max(0.0, flow.left - (m_now - flow.since) * flow.rate);
    flow.since = m_now;
    flow.rate = rate;
    setFinish(connection, rate > 0 ? m_now + flow.left / rate : kNever);
}

void Scheduler::setFinish(std::int32_t connection, double time)
{
    m_finish[at(connection)] = time;
    const std::size_t block = at(connection) / kFinishBlock;
    std::int32_t &first = m_blockFirst[block];
    if (first == kStale)
        return;
    if (time <= m_blockFinish[block]) {
        m_blockFinish[block] = time;
        first = connection;
    } else if (first == connection) {
        first = kStale;
        m_staleBlocks.push_back(static_cast<std::int32_t>(block));
    }
}

double Scheduler::nextFinish()
{
    for (const std::int32_t block : m_staleBlocks) {
        const std::size_t begin = at(block) * kFinishBlock;
        const std::size_t end = std::min(begin + kFinishBlock, m_finish.size());
        std::size_t first = begin;
        for (std::size_t i = begin + 1; i < end; ++i)
            first = m_finish[i] < m_finish[first] ? i : first;
        m_blockFirst[at(block)] = static_cast<std::int32_t>(first);
        m_blockFinish[at(block)] = m_finish[first];
    }
    m_staleBlocks.clear();
    return m_blockFinish.empty() ? kNever : *std::min_element(m_blockFinish.begin(), m_blockFinish.end());
}

void Scheduler::setRates()
{
    for (const std::int32_t connection : m_rates.update()) {
        if (m_flows[at(connection)].step >= 0)
            setRate(connection, m_rates.rate(connection));
    }
}

void Scheduler::endFlows(double time)
{
    for (std::size_t block = 0; block < m_blockFinish.size(); ++block) {
        const std::size_t last = std::min((block + 1) * kFinishBlock, m_finish.size());
        for (std::size_t i = m_blockFinish[block] > time ? last : block * kFinishBlock; i < last; ++i) {
            if (m_finish[i] > time)
                continue;
            const std::int32_t step = m_flows[i].step;
            deactivate(static_cast<std::int32_t>(i));
            end(step);
        }
    }
}

void Scheduler::endTasks(double time)
{
    while (!m_tasks.empty() && m_tasks.front().time <= time) {
        std::pop_heap(m_tasks.begin(), m_tasks.end());
        const std::int32_t step = m_tasks.back().step;
        m_tasks.pop_back();
        end(step);
    }
    for (std::int32_t step = m_processors.takeEnded(time); step >= 0; step = m_processors.takeEnded(time))
        end(step);
}

double Scheduler::run(std::span<const std::int32_t> machineOf, TransferPolicy policy, StepTimes *times,
                      const Progress *progress)
{
    m_times = times;
    if (times != nullptr) {
        times->start.assign(m_network.steps(), 0);
        times->end.assign(m_network.steps(), 0);
    }
    reset(machineOf, policy);
    for (std::size_t step = 0; step < m_network.steps(); ++step) {
        if (m_waits[step] == 0)
            m_ready.push_back(static_cast<std::int32_t>(step));
    }
    constexpr std::size_t kAsk = 256; // events
    for (std::size_t event = 1;; ++event) {
        if (progress != nullptr && event % kAsk == 0 && progress->stopped())
            return m_now;
        drain();
        setRates();
        // A message ends by its event, never by what is left of it: a rest can be shorter than the clock's last bit.
        const double flows = nextFinish();
        const double tasks = std::min(m_tasks.empty() ? kNever : m_tasks.front().time, m_processors.next());
        const double next = std::min(flows, tasks);
        if (next == kNever)
            return m_now;
        m_now = std::max(m_now, next);
        if (flows == next)
            endFlows(next);
        if (tasks == next)
            endTasks(next);
    }
}

} // namespace planloom::gnn
