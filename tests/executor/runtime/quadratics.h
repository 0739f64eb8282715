// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/local_group.h"
#include "executor/device/cpu/cpu_device.h"
#include "executor/runtime/averaging.h"

#include <QDebug>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <vector>

namespace planloom::test {

/// Losses a / 2 (w - c)^2, one per replica, and SGD at rate r.
struct Curves {
    std::array<double, 2> kept = {0.9, 0.7}; ///< 1 - r a
    std::array<double, 2> centre = {2, -1};  ///< c
    double momentum = 0;
    double decay = 0; ///< r times the factor of L2

    /// r times the gradient of @p replica at @p weight.
    [[nodiscard]] double slope(std::size_t replica, double weight) const
    {
        return (1 - kept[replica]) * (weight - centre[replica]) + decay * weight;
    }
};

/// What Quadratics compute, in double precision, after the method's text alone.
class ExactQuadratics {
public:
    explicit ExactQuadratics(const plan::DelayedAveraging &averaging, const Curves &curves = {})
        : m_averaging(averaging),
          m_curves(curves)
    {
    }
    void step(std::int64_t k, double push = 0)
    {
        for (std::size_t r = 0; r < 2; ++r) {
            m_velocity[r] = m_curves.momentum * m_velocity[r] + m_curves.slope(r, m_weights[r]);
            m_weights[r] -= m_velocity[r];
        }
        m_weights[0] += push;
        if (m_averaging.delay > 0)
            merge(k - m_averaging.delay);
        if (k % m_averaging.localSteps == 0)
            m_snapshots[k] = m_weights;
        if (m_averaging.delay == 0)
            merge(k);
    }
    void beginRound(double first, double second) { m_snapshots[0] = m_weights = {first, second}; }
    [[nodiscard]] double weight(std::size_t replica) const { return m_weights[replica]; }

private:
    void merge(std::int64_t taken)
    {
        const auto snapshot = m_snapshots.find(taken);
        if (snapshot == m_snapshots.end())
            return;
        const auto &own = snapshot->second;
        const double average = (own[0] + own[1]) / 2, x = m_averaging.localWeight;
        for (std::size_t r = 0; r < 2; ++r)
            m_weights[r] = m_averaging.merge == plan::Merge::Corrected ? m_weights[r] + (1 - x) * (average - own[r])
                                                                       : x * m_weights[r] + (1 - x) * average;
    }

    plan::DelayedAveraging m_averaging;
    Curves m_curves;
    std::array<double, 2> m_weights{}, m_velocity{};
    std::map<std::int64_t, std::array<double, 2>> m_snapshots; ///< by step
};

/// Two replicas of one parameter w, in one thread, from w = 0, merged as ranks merge theirs, in float. The sum over the
/// replicas is made here.
class Quadratics {
public:
    explicit Quadratics(const plan::DelayedAveraging &averaging, const Curves &curves = {})
        : m_averaging(averaging),
          m_curves(curves),
          m_group(2)
    {
        constexpr std::int64_t kTensor = 128;
        const TeamId team(0);
        m_program.teams.push_back({{RankId(0), RankId(1)}, {DeviceId(0), DeviceId(1)}});
        program::Bucket bucket;
        bucket.team = team;
        bucket.policy = plan::ExchangePolicy::DelayedAveraging;
        bucket.entries = {{"w", 0, 1}};
        bucket.elements = kTensor / 4;
        bucket.parameters = {0, 0};
        bucket.copies = {-1, -1};
        bucket.gradients = {kTensor, kTensor};
        bucket.averages = {2 * kTensor, 2 * kTensor};
        const std::int64_t snapshot = averaging.merge == plan::Merge::Corrected ? 3 * kTensor : -1;
        bucket.snapshots = {snapshot, snapshot};
        m_program.buckets.push_back(bucket);
        m_program.globalBatch = 2;
        for (std::int32_t r = 0; r < 2; ++r) {
            program::Rank rank;
            rank.device = DeviceId(r);
            rank.arenaBytes = 4 * kTensor;
            rank.bodies = {BodyId(r)};
            program::Task merge;
            merge.rank = RankId(r);
            merge.payload = program::Merge{BucketId(0), averaging.merge, averaging.localWeight};
            rank.tasks = {TaskId(static_cast<std::int64_t>(m_program.tasks.size()))};
            m_program.tasks.push_back(merge);
            m_program.ranks.push_back(rank);
            program::Body body;
            body.rank = RankId(r);
            body.slices = {{r, 1}};
            program::PersistentTensor held;
            held.name = "w";
            body.persistent.push_back(held);
            m_program.bodies.push_back(body);
        }
        for (int r = 0; r < 2; ++r) {
            m_ends[static_cast<std::size_t>(r)] = m_group.end(r);
            m_parts.push_back(std::unique_ptr<runtime::RankParts>(
                new runtime::RankParts{m_program, RankId(r), *m_ends[static_cast<std::size_t>(r)], device::cpuDevice(),
                                       std::chrono::seconds(10)}));
            Status ready = m_parts.back()->prepare();
            if (ready)
                ready = m_rules[static_cast<std::size_t>(r)].prepare(*m_parts.back());
            if (!ready)
                qFatal("%s", ready.error().text().c_str());
        }
    }

    /// Step @p k, from 1: update, merge, snapshot. @p push comes to the first replica's weight in the update.
    void step(std::int64_t k, double push = 0)
    {
        for (std::size_t r = 0; r < 2; ++r) {
            m_velocity[r] = m_curves.momentum * m_velocity[r] + m_curves.slope(r, weight(r));
            *at(r, 0) -= static_cast<float>(m_velocity[r]);
        }
        *at(0, 0) += static_cast<float>(push);
        if (m_averaging.delay > 0)
            merge(k - m_averaging.delay);
        if (k % m_averaging.localSteps == 0)
            average();
        if (m_averaging.delay == 0)
            merge(k);
    }
    /// Steps follow a snapshot of these.
    void beginRound(double first, double second)
    {
        *at(0, 0) = static_cast<float>(first);
        *at(1, 0) = static_cast<float>(second);
        average();
        m_firstAverage = 0;
    }
    /// Of the averages that were merged since the last call.
    [[nodiscard]] double distance()
    {
        const std::int64_t later = std::numeric_limits<std::int64_t>::max();
        return std::sqrt(m_rules[0].takeSquaredDistance(later) + m_rules[1].takeSquaredDistance(later));
    }
    [[nodiscard]] double weight(std::size_t replica) { return static_cast<double>(*at(replica, 0)); }

private:
    float *at(std::size_t replica, std::int64_t tensor)
    {
        return reinterpret_cast<float *>(m_parts[replica]->arena.use(tensor * 128, 4));
    }
    void average()
    {
        for (std::size_t r = 0; r < 2; ++r)
            m_rules[r].takeSnapshot({BucketId(0)});
        *at(0, 2) = *at(1, 2) = *at(0, 2) + *at(1, 2);
    }
    /// What was averaged behind step @p taken.
    void merge(std::int64_t taken)
    {
        for (std::size_t r = 0; r < 2 && taken >= m_firstAverage && taken % m_averaging.localSteps == 0; ++r)
            m_rules[r].merge(*m_program.tasks[r].as<program::Merge>(), taken);
    }

    plan::DelayedAveraging m_averaging;
    Curves m_curves;
    std::array<double, 2> m_velocity{}; ///< stays with its replica
    std::int64_t m_firstAverage = 1;    ///< step from which on there are averages
    program::Program m_program;
    comm::LocalGroup m_group;
    std::array<std::unique_ptr<comm::Communicator>, 2> m_ends;
    std::vector<std::unique_ptr<runtime::RankParts>> m_parts;
    std::array<runtime::Averaging, 2> m_rules;
};

} // namespace planloom::test
