// SPDX-License-Identifier: Apache-2.0
#include "profiler/kernel_times.h"

#include "engine/base/statistics.h"
#include "engine/cost/signature.h"
#include "engine/sharding/shard.h"

namespace planloom::profiler {

template <class Use>
void KernelTimes::forEach(const RankTimes &rank, RankTimes::BySamples RankTimes::*pass, const Use &use)
{
    const graph::TrainingGraph &training = rank.body->training;
    const std::size_t firstOp = pass == &RankTimes::forward ? 0 : training.forwardOps;
    for (const auto &[samples, times] : rank.*pass) {
        const std::vector<double> operators = medianOperators({rank}, pass, samples);
        for (std::size_t i = 0; i < operators.size(); ++i) {
            const graph::Op &op = training.graph.ops()[firstOp + i];
            if (!op.traits().communicates())
                use(cost::signatureOf(training.graph, op), samples, operators[i]);
        }
    }
}

/// Seconds of a step of @p rank if each operator takes what it takes on average of all ranks that have it.
double KernelTimes::expectedOf(const RankTimes &rank, const Kernels &kernels)
{
    if (rank.body == nullptr || rank.steps.empty())
        return 0;
    const auto steps = static_cast<double>(rank.steps.size());
    double seconds = median(rank.optimizer);
    for (const auto pass : {&RankTimes::forward, &RankTimes::backward})
        forEach(rank, pass, [&](const std::string &signature, std::int64_t samples, double) {
            const Sum &sum = kernels.at({signature, samples});
            seconds += sum.seconds / sum.count * static_cast<double>((rank.*pass).at(samples).whole.size()) / steps;
        });
    return seconds;
}

void KernelTimes::add(const Measurement &measurement)
{
    Kernels kernels;
    for (const RankTimes &rank : measurement.ranks())
        for (const auto pass : {&RankTimes::forward, &RankTimes::backward})
            if (rank.body != nullptr)
                forEach(rank, pass, [&](const std::string &signature, std::int64_t samples, double seconds) {
                    Sum &sum = kernels[{signature, samples}];
                    sum.seconds += seconds;
                    ++sum.count;
                });
    std::vector<double> expected;
    for (const RankTimes &rank : measurement.ranks())
        expected.push_back(expectedOf(rank, kernels));
    const double skew = skewOf(measurement.ranks(), expected);
    m_skews.push_back(skew);
    for (const auto &[key, sum] : kernels) {
        m_kernels[key].seconds += sum.seconds * skew;
        m_kernels[key].count += sum.count;
    }
    for (const RankTimes &rank : measurement.ranks()) {
        if (rank.body == nullptr)
            continue;
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
