// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/network.h"
#include "engine/gnn/transfer_policy.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace planloom::gnn {

/// The lane policy of network cards: which rate each active message has. The cost clock asks it at every event;
/// processes ask it before each chunk that they send. Keeps its memory between calls. Not thread-safe; the ports must
/// outlive it.
class TransferRates {
public:
    TransferRates(std::span<const Port> ports, std::size_t connections);

    /// Nothing is active. @p connections: their roles; @p machineOf: per role.
    void reset(std::span<const Connection> connections, std::span<const std::int32_t> machineOf, TransferPolicy policy);
    /// Of TransferPolicy::Static, whose shares count all connections that ever carry a byte: this one does. Before the
    /// first activate().
    void carries(std::int32_t connection);
    /// The same for all connections that carry something in @p network.
    void carries(const Network &network);

    [[nodiscard]] bool isLocal(std::int32_t connection) const { return flow(connection).from == flow(connection).to; }
    [[nodiscard]] std::int32_t source(std::int32_t connection) const { return flow(connection).from; } ///< its machine
    /// A message of @p iteration begins, or ends. The connection is not local and carries one message at a time.
    void activate(std::int32_t connection, std::int32_t iteration);
    void deactivate(std::int32_t connection);
    /// The connections whose rates have changed since the last call, each at least once; their messages may have ended.
    /// Cost: with Degree the active messages of the cards that were touched; MaxMin and IterationFirst look at all
    /// active ones.
    std::span<const std::int32_t> update();
    /// Bytes/s, by the last update().
    [[nodiscard]] double rate(std::int32_t connection) const { return flow(connection).rate; }

private:
    /// Active messages of one direction of a card.
    struct Direction {
        std::vector<std::int32_t> active; ///< connections
        double share = 0;                 ///< bytes/s for each
        bool changed = false;
    };
    struct Flow {
        std::int32_t from = 0; ///< machines
        std::int32_t to = 0;
        std::int32_t outAt = 0; ///< its place in Direction::active
        std::int32_t inAt = 0;
        std::int32_t iteration = 0;
        double rate = 0;
    };

    [[nodiscard]] const Flow &flow(std::int32_t connection) const
    {
        return m_flows[static_cast<std::size_t>(connection)];
    }
    [[nodiscard]] Flow &flow(std::int32_t connection) { return m_flows[static_cast<std::size_t>(connection)]; }
    void touch(const Flow &flow);
    void setRate(std::int32_t connection, double rate);
    void setByDegree();
    void setMaxMin();
    void setByIteration();

    std::span<const Port> m_ports;
    TransferPolicy m_policy = TransferPolicy::Degree;
    bool m_anyChanged = false;
    std::vector<Flow> m_flows; ///< per connection
    std::vector<Direction> m_out;
    std::vector<Direction> m_in;
    std::vector<std::int32_t> m_changed; ///< machines with a changed direction
    std::vector<std::int32_t> m_set;     ///< connections whose rate was set since the last update
    std::vector<std::int32_t> m_updated; ///< what that update returned
    std::vector<std::int32_t> m_active;
    std::vector<std::pair<double, std::int32_t>> m_leftOut; ///< per machine: rate and messages without one yet
    std::vector<std::pair<double, std::int32_t>> m_leftIn;
};

/// Bytes/s of each connection by TransferPolicy::Static; 0: it stays on a machine.
std::vector<double> staticShares(const Network &network, std::span<const Port> ports,
                                 std::span<const std::int32_t> machineOf);

} // namespace planloom::gnn
