// SPDX-License-Identifier: Apache-2.0
#include "profiler/kernel_times.h"

#include "engine/base/statistics.h"
#include "engine/cost/signature.h"
#include "engine/sharding/shard.h"

#include <algorithm>

namespace planloom::profiler {
namespace {

/// The same part of the same stage, of as many samples.
bool doTheSame(const RankTimes &a, const RankTimes &b)
{
    return a.body != nullptr && b.body != nullptr
        && (a.body == b.body
            || (a.body->stage == b.body->stage && a.body->device == b.body->device
                && std::ranges::equal(a.body->slices, b.body->slices, {}, &plan::SampleRange::size,
                                      &plan::SampleRange::size)));
}

/// Seconds of a step of each rank by the medians of its parts; ranks that do the same are expected to take equally
/// long.
std::vector<double> expectedOf(const std::vector<RankTimes> &ranks)
{
    std::vector<double> expected;
    for (const RankTimes &rank : ranks) {
        double sum = 0;
        int count = 0;
        for (const RankTimes &other : ranks) {
            if (!doTheSame(rank, other))
                continue;
            sum += partsOf(other);
            ++count;
        }
        expected.push_back(count > 0 ? sum / count : 0);
    }
    return expected;
}

} // namespace

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
    const double skew = skewOf(measurement.ranks(), expectedOf(measurement.ranks()));
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
