// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/bounds.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace planloom::gnn {
namespace {

/// All messages of one direction of one card.
struct Direction {
    double bytes = 0;
    double earliest = std::numeric_limits<double>::infinity();
    double follows = std::numeric_limits<double>::infinity();
    std::int32_t connections = 0;

    void add(double amount, double start, double rest)
    {
        bytes += amount;
        earliest = std::min(earliest, start);
        follows = std::min(follows, rest);
    }
};

/// Lengths of the longest chains to and from each step when no two messages share a card.
class Chains {
public:
    Chains(const Network &network, std::span<const Port> ports, std::span<const std::int32_t> machineOf)
        : m_network(network),
          m_start(network.steps()),
          m_rest(network.steps()),
          m_duration(network.steps())
    {
        for (std::size_t step = 0; step < network.steps(); ++step)
            m_duration[step] = alone(step, ports, machineOf);
        forward();
        backward();
    }

    [[nodiscard]] double start(std::size_t step) const { return m_start[step]; }
    [[nodiscard]] double rest(std::size_t step) const { return m_rest[step]; } ///< from its end to that of the job
    [[nodiscard]] double length() const { return m_length; }

private:
    [[nodiscard]] double alone(std::size_t step, std::span<const Port> ports,
                               std::span<const std::int32_t> machineOf) const
    {
        const std::int32_t connection = m_network.connection[step];
        if (connection == Network::kTask)
            return m_network.secondsOf(step, ports, machineOf);
        const Connection &ends = m_network.connections[static_cast<std::size_t>(connection)];
        const std::int32_t from = machineOf[static_cast<std::size_t>(ends.from)];
        const std::int32_t to = machineOf[static_cast<std::size_t>(ends.to)];
        const double within = ports[static_cast<std::size_t>(from)].within;
        if (from == to)
            return within > 0 ? m_network.amount[step] / within : 0;
        return m_network.amount[step]
            / std::min(ports[static_cast<std::size_t>(from)].out, ports[static_cast<std::size_t>(to)].in);
    }

    void forward()
    {
        for (const std::int32_t at : m_network.order) {
            const auto step = static_cast<std::size_t>(at);
            const double end = m_start[step] + m_duration[step];
            m_length = std::max(m_length, end);
            for (const std::int32_t later : m_network.laterOf(step))
                raise(m_start[static_cast<std::size_t>(later)], end);
            for (const std::int32_t later : m_network.startedBy(step))
                raise(m_start[static_cast<std::size_t>(later)], m_start[step]);
        }
    }

    void backward()
    {
        std::vector<double> fromStart(m_network.steps());
        for (auto at = m_network.order.rbegin(); at != m_network.order.rend(); ++at) {
            const auto step = static_cast<std::size_t>(*at);
            for (const std::int32_t later : m_network.laterOf(step))
                raise(m_rest[step], fromStart[static_cast<std::size_t>(later)]);
            fromStart[step] = m_duration[step] + m_rest[step];
            for (const std::int32_t later : m_network.startedBy(step))
                raise(fromStart[step], fromStart[static_cast<std::size_t>(later)]);
        }
    }

    static void raise(double &value, double to) { value = std::max(value, to); }

    const Network &m_network;
    std::vector<double> m_start;
    std::vector<double> m_rest;
    std::vector<double> m_duration;
    double m_length = 0;
};

void take(Bounds &bounds, const Direction &direction, double rate, std::size_t machine, bool out)
{
    bounds.sharing = std::max(bounds.sharing, direction.connections);
    if (direction.bytes <= 0)
        return;
    const double seconds = direction.earliest + direction.bytes / rate + direction.follows;
    if (seconds > bounds.port) {
        bounds.port = seconds;
        bounds.portMachine = static_cast<std::int32_t>(machine);
        bounds.portOut = out;
    }
}

} // namespace

Bounds bounds(const Network &network, std::span<const Port> ports, std::span<const std::int32_t> machineOf)
{
    const Chains chains(network, ports, machineOf);
    std::vector<Direction> out(ports.size());
    std::vector<Direction> in(ports.size());
    std::vector<char> counted(network.connections.size());
    for (std::size_t step = 0; step < network.steps(); ++step) {
        const std::int32_t connection = network.connection[step];
        if (connection == Network::kTask || network.amount[step] <= 0)
            continue;
        const Connection &ends = network.connections[static_cast<std::size_t>(connection)];
        const auto from = static_cast<std::size_t>(machineOf[static_cast<std::size_t>(ends.from)]);
        const auto to = static_cast<std::size_t>(machineOf[static_cast<std::size_t>(ends.to)]);
        if (from == to)
            continue;
        out[from].add(network.amount[step], chains.start(step), chains.rest(step));
        in[to].add(network.amount[step], chains.start(step), chains.rest(step));
        if (!std::exchange(counted[static_cast<std::size_t>(connection)], 1)) {
            ++out[from].connections;
            ++in[to].connections;
        }
    }
    Bounds found;
    found.criticalPath = chains.length();
    for (std::size_t machine = 0; machine < ports.size(); ++machine) {
        take(found, out[machine], ports[machine].out, machine, true);
        take(found, in[machine], ports[machine].in, machine, false);
    }
    return found;
}

} // namespace planloom::gnn
