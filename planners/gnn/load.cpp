// SPDX-License-Identifier: Apache-2.0
#include "planners/gnn/load.h"

#include <algorithm>

namespace planloom::planners::gnn {

using planloom::gnn::RoleKind;

Load::Load(const Job &job) : m_peers(job.roles.size()), m_bytes(2 * job.machines.size())
{
    for (const planloom::gnn::Machine &machine : job.machines) {
        m_rate.push_back(machine.port.out);
        m_rate.push_back(machine.port.in);
    }
    const planloom::gnn::Volumes &volumes = job.volumes;
    const std::int32_t sampler = job.first(RoleKind::Sampler);
    const std::int32_t trainer = job.first(RoleKind::Trainer);
    for (std::int32_t s = 0; s < volumes.samplers; ++s) {
        double batch = 0;
        std::vector<double> features(static_cast<std::size_t>(volumes.stores));
        for (std::int32_t n = 0; n < volumes.iterations; ++n) {
            batch += volumes.batch(n, s);
            for (std::int32_t g = 0; g < volumes.stores; ++g)
                features[static_cast<std::size_t>(g)] += volumes.feature(n, g, s);
        }
        for (std::int32_t g = 0; g < volumes.stores; ++g)
            connect(g, sampler + s, features[static_cast<std::size_t>(g)] / volumes.iterations);
        connect(sampler + s, trainer + job.roles[static_cast<std::size_t>(sampler + s)].trainer,
                batch / volumes.iterations);
    }
    for (const planloom::gnn::Exchanged &message : planloom::gnn::exchangeOf(job))
        connect(message.from, message.to, message.bytes);
}

void Load::connect(std::int32_t from, std::int32_t to, double bytes)
{
    if (bytes <= 0)
        return;
    m_peers[static_cast<std::size_t>(from)].push_back({to, bytes, false});
    m_peers[static_cast<std::size_t>(to)].push_back({from, bytes, true});
}

void Load::add(std::int32_t role, std::int32_t machine, std::span<const std::int32_t> machineOf, double sign)
{
    for (const Peer &peer : m_peers[static_cast<std::size_t>(role)]) {
        const std::int32_t other = machineOf[static_cast<std::size_t>(peer.role)];
        if (other < 0 || other == machine)
            continue;
        const std::int32_t from = peer.sends ? other : machine;
        const std::int32_t to = peer.sends ? machine : other;
        m_bytes[2 * static_cast<std::size_t>(from)] += sign * peer.bytes;
        m_bytes[2 * static_cast<std::size_t>(to) + 1] += sign * peer.bytes;
    }
}

double Load::busiest() const
{
    double most = 0;
    for (std::size_t direction = 0; direction < m_bytes.size(); ++direction)
        most = std::max(most, seconds(direction));
    return most;
}

double Load::potential(double scale) const
{
    double sum = 0;
    for (std::size_t direction = 0; direction < m_bytes.size(); ++direction) {
        const double share = seconds(direction) / scale;
        const double square = share * share;
        sum += square * square * square * square;
    }
    return sum;
}

} // namespace planloom::planners::gnn
