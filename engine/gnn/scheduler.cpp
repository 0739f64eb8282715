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
      m_flows(network.connections.size()),
      m_finish(network.connections.size(), kNever),
      m_blockFinish((network.connections.size() + kFinishBlock - 1) / kFinishBlock, kNever),
      m_blockStale(m_blockFinish.size()),
      m_out(ports.size()),
      m_in(ports.size())
{
}

void Scheduler::reset(std::span<const std::int32_t> machineOf, TransferPolicy policy)
{
    m_policy = policy;
    m_now = 0;
    m_flowsChanged = false;
    m_waits = m_network.waits;
    m_ready.clear();
    m_tasks.clear();
    for (std::size_t i = 0; i < m_flows.size(); ++i) {
        const Connection &connection = m_network.connections[i];
        m_flows[i] = {};
        m_flows[i].from = machineOf[at(connection.from)];
        m_flows[i].to = machineOf[at(connection.to)];
    }
    for (auto *directions : {&m_out, &m_in}) {
        for (Direction &direction : *directions) {
            direction.active.clear();
            direction.changed = false;
        }
    }
    m_changed.clear();
    if (policy == TransferPolicy::Static)
        fixShares();
}

/// Static: the share counts each connection that ever carries a byte.
void Scheduler::fixShares()
{
    m_leftOut.assign(m_ports.size(), {0, 0});
    m_leftIn.assign(m_ports.size(), {0, 0});
    std::vector<char> counted(m_flows.size());
    for (std::size_t step = 0; step < m_network.steps(); ++step) {
        const std::int32_t connection = m_network.connection[step];
        if (connection == Network::kTask || m_network.amount[step] <= 0
            || std::exchange(counted[at(connection)], 1) != 0)
            continue;
        const Flow &flow = m_flows[at(connection)];
        if (flow.from == flow.to)
            continue;
        ++m_leftOut[at(flow.from)].second;
        ++m_leftIn[at(flow.to)].second;
    }
    for (std::size_t machine = 0; machine < m_ports.size(); ++machine) {
        m_out[machine].share = m_ports[machine].out / std::max(1, m_leftOut[machine].second);
        m_in[machine].share = m_ports[machine].in / std::max(1, m_leftIn[machine].second);
    }
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
    if (connection == Network::kTask) {
        m_tasks.push_back({m_now + m_network.amount[at(step)], step});
        std::push_heap(m_tasks.begin(), m_tasks.end());
        return;
    }
    const Flow &flow = m_flows[at(connection)];
    if (flow.from == flow.to || m_network.amount[at(step)] <= 0)
        end(step);
    else
        activate(step, connection);
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
    Direction &out = m_out[at(flow.from)];
    Direction &in = m_in[at(flow.to)];
    flow.outAt = static_cast<std::int32_t>(out.active.size());
    flow.inAt = static_cast<std::int32_t>(in.active.size());
    out.active.push_back(connection);
    in.active.push_back(connection);
    out.changed = in.changed = true;
    m_changed.push_back(flow.from);
    m_changed.push_back(flow.to);
    m_flowsChanged = true;
    if (m_policy == TransferPolicy::Static)
        setRate(connection, std::min(out.share, in.share));
}

void Scheduler::deactivate(std::int32_t connection)
{
    Flow &flow = m_flows[at(connection)];
    Direction &out = m_out[at(flow.from)];
    Direction &in = m_in[at(flow.to)];
    m_flows[at(out.active.back())].outAt = flow.outAt;
    out.active[at(flow.outAt)] = out.active.back();
    out.active.pop_back();
    m_flows[at(in.active.back())].inAt = flow.inAt;
    in.active[at(flow.inAt)] = in.active.back();
    in.active.pop_back();
    out.changed = in.changed = true;
    m_changed.push_back(flow.from);
    m_changed.push_back(flow.to);
    m_flowsChanged = true;
    setFinish(connection, kNever);
    flow.step = -1;
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
    if (std::exchange(m_blockStale[block], 1) == 0)
        m_staleBlocks.push_back(static_cast<std::int32_t>(block));
}

double Scheduler::nextFinish()
{
    for (const std::int32_t block : m_staleBlocks) {
        const std::size_t begin = at(block) * kFinishBlock;
        const std::size_t end = std::min(begin + kFinishBlock, m_finish.size());
        m_blockFinish[at(block)] = *std::min_element(m_finish.begin() + static_cast<std::ptrdiff_t>(begin),
                                                     m_finish.begin() + static_cast<std::ptrdiff_t>(end));
        m_blockStale[at(block)] = 0;
    }
    m_staleBlocks.clear();
    return m_blockFinish.empty() ? kNever : *std::min_element(m_blockFinish.begin(), m_blockFinish.end());
}

void Scheduler::setByDegree()
{
    for (const std::int32_t machine : m_changed) {
        m_out[at(machine)].share = m_ports[at(machine)].out / static_cast<double>(m_out[at(machine)].active.size());
        m_in[at(machine)].share = m_ports[at(machine)].in / static_cast<double>(m_in[at(machine)].active.size());
    }
    const auto update = [this](Direction &direction) {
        if (!std::exchange(direction.changed, false))
            return;
        for (const std::int32_t connection : direction.active) {
            const Flow &flow = m_flows[at(connection)];
            setRate(connection, std::min(m_out[at(flow.from)].share, m_in[at(flow.to)].share));
        }
    };
    for (const std::int32_t machine : m_changed) {
        update(m_out[at(machine)]);
        update(m_in[at(machine)]);
    }
}

/// Progressive filling: the direction with the smallest share of what is left gives it to each of its messages, which
/// then leave the other directions' counts.
void Scheduler::setMaxMin()
{
    m_active.clear();
    for (std::size_t machine = 0; machine < m_ports.size(); ++machine) {
        m_leftOut[machine] = {m_ports[machine].out, static_cast<std::int32_t>(m_out[machine].active.size())};
        m_leftIn[machine] = {m_ports[machine].in, static_cast<std::int32_t>(m_in[machine].active.size())};
        m_active.insert(m_active.end(), m_out[machine].active.begin(), m_out[machine].active.end());
    }
    const auto share = [](const std::pair<double, std::int32_t> &left) {
        return left.second > 0 ? std::max(0.0, left.first) / left.second : kNever;
    };
    while (!m_active.empty()) {
        double least = kNever;
        for (std::size_t machine = 0; machine < m_ports.size(); ++machine)
            least = std::min({least, share(m_leftOut[machine]), share(m_leftIn[machine])});
        // All bottlenecks of this share are served before it is computed anew: serving one leaves the others' as it is.
        constexpr double kEqual = 1 + 1e-12;
        const auto served = std::partition(m_active.begin(), m_active.end(), [&](std::int32_t connection) {
            const Flow &flow = m_flows[at(connection)];
            return share(m_leftOut[at(flow.from)]) > least * kEqual && share(m_leftIn[at(flow.to)]) > least * kEqual;
        });
        for (auto connection = served; connection != m_active.end(); ++connection) {
            const Flow &flow = m_flows[at(*connection)];
            setRate(*connection, least);
            for (auto *left : {&m_leftOut[at(flow.from)], &m_leftIn[at(flow.to)]}) {
                left->first -= least;
                --left->second;
            }
        }
        m_active.erase(served, m_active.end());
    }
}

void Scheduler::setByIteration()
{
    m_active.clear();
    for (std::size_t machine = 0; machine < m_ports.size(); ++machine) {
        m_leftOut[machine].first = m_ports[machine].out;
        m_leftIn[machine].first = m_ports[machine].in;
        m_active.insert(m_active.end(), m_out[machine].active.begin(), m_out[machine].active.end());
    }
    std::sort(m_active.begin(), m_active.end(), [this](std::int32_t a, std::int32_t b) {
        const std::int32_t ofA = m_network.iteration[at(m_flows[at(a)].step)];
        const std::int32_t ofB = m_network.iteration[at(m_flows[at(b)].step)];
        return ofA != ofB ? ofA < ofB : a < b;
    });
    for (const std::int32_t connection : m_active) {
        const Flow &flow = m_flows[at(connection)];
        double &out = m_leftOut[at(flow.from)].first;
        double &in = m_leftIn[at(flow.to)].first;
        const double rate = std::min(out, in);
        setRate(connection, rate);
        out -= rate; // exactly 0 on the side that limits
        in -= rate;
    }
}

void Scheduler::setRates()
{
    if (!std::exchange(m_flowsChanged, false))
        return;
    switch (m_policy) {
    case TransferPolicy::Static: break;
    case TransferPolicy::Degree: setByDegree(); break;
    case TransferPolicy::MaxMin: setMaxMin(); break;
    case TransferPolicy::IterationFirst: setByIteration(); break;
    }
    m_changed.clear();
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
}

double Scheduler::run(std::span<const std::int32_t> machineOf, TransferPolicy policy, StepTimes *times)
{
    m_times = times;
    if (times != nullptr) {
        times->start.assign(m_network.steps(), 0);
        times->end.assign(m_network.steps(), 0);
    }
    m_leftOut.resize(m_ports.size());
    m_leftIn.resize(m_ports.size());
    reset(machineOf, policy);
    for (std::size_t step = 0; step < m_network.steps(); ++step) {
        if (m_waits[step] == 0)
            m_ready.push_back(static_cast<std::int32_t>(step));
    }
    while (true) {
        drain();
        setRates();
        // A message ends by its event, never by what is left of it: a rest can be shorter than the clock's last bit.
        const double flows = nextFinish();
        const double tasks = m_tasks.empty() ? kNever : m_tasks.front().time;
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
