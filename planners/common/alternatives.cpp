// SPDX-License-Identifier: Apache-2.0
#include "planners/common/alternatives.h"

#include "engine/plan/fingerprint.h"
#include "planners/common/why.h"

#include <algorithm>
#include <cmath>

namespace planloom::planners {
namespace {

/// What decides the simulation of @p plan, but for buckets, whose size is not seen in its figures where these are the
/// same.
std::string effectKey(plan::Plan plan)
{
    plan.bucketBytes = plan::Plan::kBucketBytes;
    return plan::simulationKey(plan);
}

bool sameFigure(double a, double b) { return a == b || std::abs(a - b) < kSameFigures * std::max(a, b); }

bool sameFigures(const Candidate &a, const Candidate &b)
{
    const bool samePeak = a.peakBytes == 0 || b.peakBytes == 0
        || sameFigure(static_cast<double>(a.peakBytes), static_cast<double>(b.peakBytes));
    return samePeak && sameFigure(a.simulatedSeconds, b.simulatedSeconds);
}

} // namespace

bool sameInEffect(const Candidate &a, const Candidate &b)
{
    return sameFigures(a, b) && effectKey(a.plan) == effectKey(b.plan);
}

std::int64_t fullestBytes(const simulate::Report &report)
{
    std::int64_t peak = 0;
    for (const simulate::DeviceReport &device : report.devices)
        peak = std::max(peak, device.peakBytes);
    return peak;
}

std::vector<Candidate> distinct(const Candidate &chosen, std::vector<Candidate> alternatives)
{
    std::vector<Candidate> kept;
    std::vector<std::string> keys{effectKey(chosen.plan)};
    for (Candidate &each : alternatives) {
        const std::string key = effectKey(each.plan);
        bool known = key == keys.front() && sameFigures(chosen, each);
        for (std::size_t k = 0; k < kept.size() && !known; ++k)
            known = key == keys[k + 1] && sameFigures(kept[k], each);
        if (known)
            continue;
        keys.push_back(key);
        kept.push_back(std::move(each));
    }
    return kept;
}

std::vector<Candidate> offeredBeside(const PlanReport &report)
{
    const Candidate chosen{report.plan, report.predicted.iterationSeconds, fullestBytes(report.predicted)};
    std::vector<Candidate> all = report.alternatives;
    all.insert(all.end(), report.pareto.begin(), report.pareto.end());
    all = distinct(chosen, std::move(all));
    std::ranges::stable_sort(all, {}, &Candidate::simulatedSeconds);
    return all;
}

std::optional<plan::RunnerUp> runnerUpAmong(const Candidate &chosen, const std::vector<Candidate> &alternatives)
{
    const auto other = std::find_if(alternatives.begin(), alternatives.end(),
                                    [&](const Candidate &each) { return !sameInEffect(chosen, each); });
    if (other == alternatives.end())
        return std::nullopt;
    return runnerUpOf(chosen.plan, other->plan, other->simulatedSeconds);
}

std::vector<std::string> differencesOf(const plan::Plan &chosen, const plan::Plan &other)
{
    plan::Plan alike = other;
    alike.planner = chosen.planner;
    for (std::size_t i = 0; i < std::min(alike.stages.size(), chosen.stages.size()); ++i)
        alike.stages[i].name = chosen.stages[i].name;
    return plan::difference(chosen, alike);
}

} // namespace planloom::planners
