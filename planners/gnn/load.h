// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/gnn/job.h"

#include <cstdint>
#include <span>
#include <vector>

namespace planloom::planners::gnn {

using planloom::gnn::Job;

/// Seconds an iteration of each direction of each network card, from the mean bytes between roles, as roles are placed.
/// What a schedule makes of them comes on top; the busiest direction is a bound of it. The job must have passed
/// gnn::checkJob and outlive it.
class Load {
public:
    explicit Load(const Job &job);

    /// Puts @p role on @p machine (@p sign -1: takes it away). @p machineOf: of the other roles; those with -1 send
    /// nothing yet. Cost: O(connections of the role).
    void add(std::int32_t role, std::int32_t machine, std::span<const std::int32_t> machineOf, double sign = 1);

    [[nodiscard]] double busiest() const;
    /// Directions are numbered 2 * machine (out) and 2 * machine + 1 (in).
    [[nodiscard]] std::size_t directions() const { return m_bytes.size(); }
    [[nodiscard]] double seconds(std::size_t direction) const { return m_bytes[direction] / m_rate[direction]; }
    /// Sum over the directions of (seconds / @p scale)^8: nearly the busiest one's, and still better when one of
    /// several equally busy directions gets rid of bytes, which the busiest alone does not show.
    [[nodiscard]] double potential(double scale) const;

    struct Peer {
        std::int32_t role;
        double bytes;
        bool sends; ///< the peer sends to the role, else it receives
    };
    [[nodiscard]] std::span<const Peer> peers(std::int32_t role) const
    {
        return m_peers[static_cast<std::size_t>(role)];
    }

private:
    void connect(std::int32_t from, std::int32_t to, double bytes);

    std::vector<std::vector<Peer>> m_peers; ///< per role
    std::vector<double> m_bytes;            ///< an iteration, per direction
    std::vector<double> m_rate;             ///< bytes/s, per direction
};

} // namespace planloom::planners::gnn
