// SPDX-License-Identifier: Apache-2.0
#include "profiler/kernel_times.h"

#include "engine/base/statistics.h"
#include "engine/cost/signature.h"
#include "engine/sharding/shard.h"

namespace planloom::profiler {

void KernelTimes::addPass(const RankTimes &rank, RankTimes::BySamples RankTimes::*pass, std::size_t firstOp,
                          double skew)
{
    const graph::Graph &graph = rank.body->training.graph;
    for (const auto &[samples, times] : rank.*pass) {
        const std::vector<double> operators = medianOperators({rank}, pass, samples);
        for (std::size_t i = 0; i < operators.size(); ++i) {
            const graph::Op &op = graph.ops()[firstOp + i];
            if (op.traits().communicates())
                continue;
            Sum &sum = m_kernels[{cost::signatureOf(graph, op), samples}];
            sum.seconds += operators[i] * skew;
            ++sum.count;
        }
    }
}

void KernelTimes::add(const Measurement &measurement)
{
    const double skew = skewOf(measurement.ranks());
    m_skews.push_back(skew);
    for (const RankTimes &rank : measurement.ranks()) {
        if (rank.body == nullptr)
            continue;
        addPass(rank, &RankTimes::forward, 0, skew);
        addPass(rank, &RankTimes::backward, rank.body->training.forwardOps, skew);
        for (const double seconds : rank.optimizer) {
            if (rank.updated > 0)
                m_optimizer.push_back(seconds * skew / static_cast<double>(rank.updated));
        }
        if (rank.alone > 0)
            m_slowdown.push_back(rank.busy / rank.alone);
    }
}

void KernelTimes::finish(cost::Profile &profile) const
{
    for (const auto &[key, sum] : m_kernels)
        profile.kernels[key.first].push_back({static_cast<double>(key.second), Seconds(sum.seconds / sum.count)});
    if (!m_optimizer.empty())
        profile.extra["optimizer_seconds_per_parameter"] = median(m_optimizer);
    if (!m_skews.empty())
        profile.extra["step_skew"] = median(m_skews);
    if (!m_slowdown.empty())
        profile.extra["busy_slowdown"] = median(m_slowdown);
}

} // namespace planloom::profiler
