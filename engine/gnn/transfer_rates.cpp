// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/transfer_rates.h"

#include <algorithm>
#include <limits>

namespace planloom::gnn {
namespace {

constexpr double kWithoutLimit = std::numeric_limits<double>::infinity();

std::size_t place(std::int32_t index) { return static_cast<std::size_t>(index); }

} // namespace

TransferRates::TransferRates(std::span<const Port> ports, std::size_t connections)
    : m_ports(ports),
      m_flows(connections),
      m_out(ports.size()),
      m_in(ports.size()),
      m_leftOut(ports.size()),
      m_leftIn(ports.size())
{
}

void TransferRates::reset(std::span<const Connection> connections, std::span<const std::int32_t> machineOf,
                          TransferPolicy policy)
{
    m_policy = policy;
    m_anyChanged = false;
    for (std::size_t i = 0; i < m_flows.size(); ++i) {
        m_flows[i] = {};
        m_flows[i].from = machineOf[place(connections[i].from)];
        m_flows[i].to = machineOf[place(connections[i].to)];
    }
    for (std::size_t machine = 0; machine < m_ports.size(); ++machine) {
        m_out[machine].active.clear();
        m_in[machine].active.clear();
        m_out[machine].changed = m_in[machine].changed = false;
        m_leftOut[machine].second = m_leftIn[machine].second = 0;
        m_out[machine].share = m_ports[machine].out;
        m_in[machine].share = m_ports[machine].in;
    }
    m_changed.clear();
}

void TransferRates::carries(std::int32_t connection)
{
    if (m_policy != TransferPolicy::Static || isLocal(connection))
        return;
    const Flow &message = flow(connection);
    m_out[place(message.from)].share = m_ports[place(message.from)].out / ++m_leftOut[place(message.from)].second;
    m_in[place(message.to)].share = m_ports[place(message.to)].in / ++m_leftIn[place(message.to)].second;
}

void TransferRates::carries(const Network &network)
{
    std::vector<char> counted(network.connections.size());
    for (std::size_t step = 0; step < network.steps(); ++step) {
        const std::int32_t connection = network.connection[step];
        if (connection != Network::kTask && network.amount[step] > 0
            && std::exchange(counted[place(connection)], 1) == 0)
            carries(connection);
    }
}

void TransferRates::touch(const Flow &flow)
{
    m_out[place(flow.from)].changed = m_in[place(flow.to)].changed = true;
    m_changed.push_back(flow.from);
    m_changed.push_back(flow.to);
    m_anyChanged = true;
}

void TransferRates::activate(std::int32_t connection, std::int32_t iteration)
{
    Flow &message = flow(connection);
    message.rate = 0;
    message.iteration = iteration;
    Direction &out = m_out[place(message.from)];
    Direction &in = m_in[place(message.to)];
    message.outAt = static_cast<std::int32_t>(out.active.size());
    message.inAt = static_cast<std::int32_t>(in.active.size());
    out.active.push_back(connection);
    in.active.push_back(connection);
    touch(message);
    if (m_policy == TransferPolicy::Static)
        setRate(connection, std::min(out.share, in.share));
}

void TransferRates::deactivate(std::int32_t connection)
{
    Flow &message = flow(connection);
    Direction &out = m_out[place(message.from)];
    Direction &in = m_in[place(message.to)];
    flow(out.active.back()).outAt = message.outAt;
    out.active[place(message.outAt)] = out.active.back();
    out.active.pop_back();
    flow(in.active.back()).inAt = message.inAt;
    in.active[place(message.inAt)] = in.active.back();
    in.active.pop_back();
    touch(message);
}

void TransferRates::setRate(std::int32_t connection, double rate)
{
    Flow &message = flow(connection);
    if (message.rate == rate)
        return;
    message.rate = rate;
    m_set.push_back(connection);
}

void TransferRates::setByDegree()
{
    for (const std::int32_t machine : m_changed) {
        m_out[place(machine)].share =
            m_ports[place(machine)].out / static_cast<double>(m_out[place(machine)].active.size());
        m_in[place(machine)].share =
            m_ports[place(machine)].in / static_cast<double>(m_in[place(machine)].active.size());
    }
    const auto update = [this](Direction &direction) {
        if (!std::exchange(direction.changed, false))
            return;
        for (const std::int32_t connection : direction.active) {
            const Flow &message = flow(connection);
            setRate(connection, std::min(m_out[place(message.from)].share, m_in[place(message.to)].share));
        }
    };
    for (const std::int32_t machine : m_changed) {
        update(m_out[place(machine)]);
        update(m_in[place(machine)]);
    }
}

/// Progressive filling: the direction with the smallest share of what is left gives it to each of its messages, which
/// then leave the other directions' counts.
void TransferRates::setMaxMin()
{
    m_active.clear();
    for (std::size_t machine = 0; machine < m_ports.size(); ++machine) {
        m_leftOut[machine] = {m_ports[machine].out, static_cast<std::int32_t>(m_out[machine].active.size())};
        m_leftIn[machine] = {m_ports[machine].in, static_cast<std::int32_t>(m_in[machine].active.size())};
        m_active.insert(m_active.end(), m_out[machine].active.begin(), m_out[machine].active.end());
    }
    const auto share = [](const std::pair<double, std::int32_t> &left) {
        return left.second > 0 ? std::max(0.0, left.first) / left.second : kWithoutLimit;
    };
    while (!m_active.empty()) {
        double least = kWithoutLimit;
        for (std::size_t machine = 0; machine < m_ports.size(); ++machine)
            least = std::min({least, share(m_leftOut[machine]), share(m_leftIn[machine])});
        // All bottlenecks of this share are served before it is computed anew: serving one leaves the others' as it is.
        constexpr double kEqual = 1 + 1e-12;
        const auto served = std::partition(m_active.begin(), m_active.end(), [&](std::int32_t connection) {
            const Flow &message = flow(connection);
            return share(m_leftOut[place(message.from)]) > least * kEqual
                && share(m_leftIn[place(message.to)]) > least * kEqual;
        });
        for (auto connection = served; connection != m_active.end(); ++connection) {
            const Flow &message = flow(*connection);
            setRate(*connection, least);
            for (auto *left : {&m_leftOut[place(message.from)], &m_leftIn[place(message.to)]}) {
                left->first -= least;
                --left->second;
            }
        }
        m_active.erase(served, m_active.end());
    }
}

void TransferRates::setByIteration()
{
    m_active.clear();
    for (std::size_t machine = 0; machine < m_ports.size(); ++machine) {
        m_leftOut[machine].first = m_ports[machine].out;
        m_leftIn[machine].first = m_ports[machine].in;
        m_active.insert(m_active.end(), m_out[machine].active.begin(), m_out[machine].active.end());
    }
    std::sort(m_active.begin(), m_active.end(), [this](std::int32_t a, std::int32_t b) {
        const std::int32_t ofA = flow(a).iteration;
        const std::int32_t ofB = flow(b).iteration;
        return ofA != ofB ? ofA < ofB : a < b;
    });
    for (const std::int32_t connection : m_active) {
        const Flow &message = flow(connection);
        double &out = m_leftOut[place(message.from)].first;
        double &in = m_leftIn[place(message.to)].first;
        const double rate = std::min(out, in);
        setRate(connection, rate);
        out -= rate; // exactly 0 on the side that limits
        in -= rate;
    }
}

std::span<const std::int32_t> TransferRates::update()
{
    m_updated.clear();
    if (!std::exchange(m_anyChanged, false))
        return m_updated;
    switch (m_policy) {
    case TransferPolicy::Static: break; // set once, as messages begin
    case TransferPolicy::Degree: setByDegree(); break;
    case TransferPolicy::MaxMin: setMaxMin(); break;
    case TransferPolicy::IterationFirst: setByIteration(); break;
    }
    m_changed.clear();
    m_updated.swap(m_set);
    return m_updated;
}

std::vector<double> staticShares(const Network &network, std::span<const Port> ports,
                                 std::span<const std::int32_t> machineOf)
{
    TransferRates rates(ports, network.connections.size());
    rates.reset(network.connections, machineOf, TransferPolicy::Static);
    rates.carries(network);
    std::vector<double> shares(network.connections.size());
    for (std::size_t i = 0; i < shares.size(); ++i) {
        const auto connection = static_cast<std::int32_t>(i);
        if (rates.isLocal(connection))
            continue;
        rates.activate(connection, 0);
        shares[i] = rates.rate(connection);
        rates.deactivate(connection);
    }
    return shares;
}

} // namespace planloom::gnn
