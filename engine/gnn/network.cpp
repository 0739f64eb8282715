// SPDX-License-Identifier: Apache-2.0
#include "engine/gnn/network.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace planloom::gnn {

std::int32_t NetworkBuilder::connection(std::int32_t fromRole, std::int32_t toRole)
{
    m_network.connections.push_back({fromRole, toRole});
    m_network.roles = std::max({m_network.roles, fromRole + 1, toRole + 1});
    m_lastMessage.push_back(-1);
    return static_cast<std::int32_t>(m_network.connections.size()) - 1;
}

std::int32_t NetworkBuilder::add(double amount, std::int32_t connection, std::int32_t iteration)
{
    m_network.amount.push_back(amount);
    m_network.connection.push_back(connection);
    m_network.iteration.push_back(iteration);
    m_network.role.push_back(-1);
    m_network.trains.push_back(false);
    return static_cast<std::int32_t>(m_network.steps()) - 1;
}

std::int32_t NetworkBuilder::task(double seconds, std::int32_t iteration, std::int32_t role, bool trains)
{
    const std::int32_t step = add(seconds, Network::kTask, iteration);
    m_network.role.back() = role;
    m_network.trains.back() = trains;
    return step;
}

std::int32_t NetworkBuilder::message(std::int32_t connection, double bytes, std::int32_t iteration)
{
    const std::int32_t step = add(bytes, connection, iteration);
    std::int32_t &last = m_lastMessage[static_cast<std::size_t>(connection)];
    if (last >= 0)
        after(step, last);
    last = step;
    return step;
}

void NetworkBuilder::index(const std::vector<Edge> &edges, std::vector<std::int32_t> &begin,
                           std::vector<std::int32_t> &of)
{
    begin.assign(m_network.steps() + 1, 0);
    for (const Edge &edge : edges) {
        ++begin[static_cast<std::size_t>(edge.earlier) + 1];
        ++m_network.waits[static_cast<std::size_t>(edge.later)];
    }
    for (std::size_t i = 1; i < begin.size(); ++i)
        begin[i] += begin[i - 1];
    of.resize(edges.size());
    std::vector<std::int32_t> next(begin.begin(), begin.end() - 1);
    for (const Edge &edge : edges)
        of[static_cast<std::size_t>(next[static_cast<std::size_t>(edge.earlier)]++)] = edge.later;
}

void NetworkBuilder::sort()
{
    std::vector<std::int32_t> waits = m_network.waits;
    std::vector<std::int32_t> &order = m_network.order;
    order.reserve(waits.size());
    for (std::size_t step = 0; step < waits.size(); ++step) {
        if (waits[step] == 0)
            order.push_back(static_cast<std::int32_t>(step));
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
        const auto step = static_cast<std::size_t>(order[i]);
        for (const auto &steps : {m_network.laterOf(step), m_network.startedBy(step)}) {
            for (const std::int32_t next : steps) {
                if (--waits[static_cast<std::size_t>(next)] == 0)
                    order.push_back(next);
            }
        }
    }
    assert(order.size() == m_network.steps());
}

Network NetworkBuilder::build() &&
{
    m_network.waits.assign(m_network.steps(), 0);
    index(m_ends, m_network.laterBegin, m_network.later);
    index(m_starts, m_network.startedBegin, m_network.started);
    sort();
    return std::move(m_network);
}

} // namespace planloom::gnn
