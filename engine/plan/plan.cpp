// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/plan.h"

#include "engine/plan/validate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <numeric>

namespace planloom::plan {
namespace {

constexpr std::array kScheduleNames{"gpipe", "1f1b",  "dapple-a", "dapple-b", "interleaved-1f1b",
                                    "zb-h1", "custom"}; // order of ScheduleKind

/// Samples of each replica by largest remainder; ties go to the lower index.
std::vector<std::int64_t> sliceSizes(const std::vector<double> &shares, std::int64_t samples)
{
    const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
    std::vector<std::int64_t> sizes(shares.size());
    std::vector<double> remainders(shares.size());
    std::int64_t left = samples;
    for (std::size_t i = 0; i < shares.size(); ++i) {
        const double ideal = static_cast<double>(samples) * shares[i] / total;
        sizes[i] = std::min(left, static_cast<std::int64_t>(ideal));
        remainders[i] = ideal - static_cast<double>(sizes[i]);
        left -= sizes[i];
    }
    std::vector<std::size_t> order(shares.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
    for (std::size_t i = 0; left > 0; i = (i + 1) % order.size(), --left)
        ++sizes[order[i]];
    return sizes;
}

/// Forwards before the first backward in a hand-made order, 0 if there is none for @p device.
int leadingForwards(const Plan &plan, std::size_t stage)
{
    const auto isForward = [stage](const schedule::PassStep &step) {
        return step.forward() && step.stage == static_cast<std::int32_t>(stage);
    };
    for (const auto &[device, order] : plan.schedule.order) {
        if (order.empty() || !isForward(order.front()))
            continue;
        const auto firstOther = std::find_if_not(order.begin(), order.end(), isForward);
        return static_cast<int>(firstOther - order.begin());
    }
    return 0;
}

/// Forwards before the first backward on the place of @p stage, whichever of its stages they are of (Narayanan et al.,
/// 2021).
std::int64_t interleavedDepth(const Plan &plan, std::size_t stage)
{
    const auto places = static_cast<std::int64_t>(stageGroups(plan).size());
    const auto stages = static_cast<std::int64_t>(plan.stages.size());
    const auto index = static_cast<std::int64_t>(stage);
    if (places == stages)
        return stages - index;
    const std::int64_t groups = std::max<std::int64_t>(1, plan.microBatches / places);
    return (stages / places - 1) * ((plan.microBatches + groups - 1) / groups) + 2 * (places - index % places - 1) + 1;
}

std::int64_t depthByKind(const Plan &plan, std::size_t stage)
{
    const auto behind = static_cast<std::int64_t>(plan.stages.size() - stage);
    switch (plan.schedule.kind) {
    case ScheduleKind::GPipe: return plan.microBatches;
    case ScheduleKind::OneF1B:
    case ScheduleKind::DappleA:
    case ScheduleKind::ZeroBubbleH1: return behind;
    case ScheduleKind::Interleaved1F1B: return interleavedDepth(plan, stage);
    case ScheduleKind::DappleB: return 2 * behind - 1;
    case ScheduleKind::Custom: break;
    }
    const int given = leadingForwards(plan, stage);
    return given > 0 ? given : behind;
}

/// @p shards: how the devices of a replica share the work.
std::string notationOfOne(const Stage &stage, const char *shards)
{
    if (stage.devices.size() == 1)
        return "one device";
    if (stage.shards() == 1)
        return "DP";
    return stage.replicas() == 1 ? shards : fmt::format("DP {} x {} {}", stage.replicas(), shards, stage.shards());
}

} // namespace

const char *name(ScheduleKind kind)
{
    const auto index = static_cast<std::size_t>(kind);
    return index < kScheduleNames.size() ? kScheduleNames[index] : "unknown";
}

std::optional<ScheduleKind> scheduleFromName(std::string_view text)
{
    for (std::size_t i = 0; i < kScheduleNames.size(); ++i) {
        if (text == kScheduleNames[i])
            return static_cast<ScheduleKind>(i);
    }
    return std::nullopt;
}

const char *name(Recompute recompute)
{
    constexpr const char *kNames[] = {"none", "selective", "layers", "full"};
    return kNames[static_cast<std::size_t>(recompute)];
}

std::optional<Recompute> recomputeFromName(std::string_view text)
{
    for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Layers, Recompute::Full}) {
        if (text == name(recompute))
            return recompute;
    }
    return std::nullopt;
}

const char *name(Precision precision) { return precision == Precision::BFloat16 ? "bf16" : "fp32"; }

std::optional<Precision> precisionFromName(std::string_view text)
{
    for (const Precision precision : {Precision::Float32, Precision::BFloat16}) {
        if (text == name(precision))
            return precision;
    }
    return std::nullopt;
}

std::vector<std::string> scheduleNames() { return {kScheduleNames.begin(), kScheduleNames.end()}; }

Subject makeSubject(std::shared_ptr<const graph::Graph> graph, std::shared_ptr<const cluster::Cluster> cluster,
                    std::shared_ptr<const cost::Profile> profile, std::string modelSource)
{
    auto costs = std::make_shared<const cost::CostModel>(graph, cluster, profile);
    return {std::move(graph), std::move(cluster), std::move(profile), std::move(costs), std::move(modelSource)};
}

Subject inPrecision(const Subject &subject, Precision precision)
{
    const bool half = precision == Precision::BFloat16;
    Subject made = subject;
    if (subject.costs->half() != half)
        made.costs = std::make_shared<const cost::CostModel>(subject.graph, subject.cluster, subject.profile, half);
    return made;
}

SampleRange microBatchRange(const Plan &plan, std::int64_t microBatch)
{
    const std::int64_t size = plan.globalBatch / plan.microBatches;
    const std::int64_t larger = plan.globalBatch % plan.microBatches;
    return {microBatch * size + std::min(microBatch, larger), size + (microBatch < larger ? 1 : 0)};
}

std::vector<std::int64_t> replicaSizes(const Stage &stage, std::int64_t samples)
{
    if (stage.replicaShares.size() == stage.replicas()
        && std::accumulate(stage.replicaShares.begin(), stage.replicaShares.end(), 0.0) > 0)
        return sliceSizes(stage.replicaShares, samples);
    const auto count = static_cast<std::int64_t>(stage.replicas());
    std::vector<std::int64_t> sizes(stage.replicas(), samples / count);
    std::fill_n(sizes.begin(), samples % count, samples / count + 1);
    return sizes;
}

SampleRange replicaRange(const Stage &stage, std::size_t replica, std::int64_t samples)
{
    const double total = std::accumulate(stage.replicaShares.begin(), stage.replicaShares.end(), 0.0);
    if (stage.replicaShares.size() != stage.replicas() || !(total > 0)) {
        const auto count = static_cast<std::int64_t>(stage.replicas());
        const auto index = static_cast<std::int64_t>(replica);
        const std::int64_t larger = samples % count;
        return {index * (samples / count) + std::min(index, larger), samples / count + (index < larger ? 1 : 0)};
    }
    const std::vector<std::int64_t> sizes = sliceSizes(stage.replicaShares, samples);
    const auto end = sizes.begin() + static_cast<std::ptrdiff_t>(replica);
    return {std::accumulate(sizes.begin(), end, std::int64_t{0}), sizes[replica]};
}

std::vector<std::vector<std::size_t>> stageGroups(const Plan &plan)
{
    std::vector<std::vector<std::size_t>> groups;
    std::map<std::vector<DeviceId>, std::size_t> byDevices;
    for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
        const auto [entry, isNew] = byDevices.try_emplace(plan.stages[stage].devices, groups.size());
        if (isNew)
            groups.emplace_back();
        groups[entry->second].push_back(stage);
    }
    return groups;
}

std::vector<DeviceId> devicesOf(const Plan &plan)
{
    std::vector<DeviceId> devices;
    for (const std::vector<std::size_t> &stages : stageGroups(plan)) {
        const std::vector<DeviceId> &group = plan.stages[stages.front()].devices;
        devices.insert(devices.end(), group.begin(), group.end());
    }
    return devices;
}

bool splitsBackward(const Schedule &schedule, std::size_t stage)
{
    if (schedule.kind == ScheduleKind::ZeroBubbleH1)
        return true;
    const auto isWeights = [&](const schedule::PassStep &step) {
        return step.pass == schedule::Pass::WeightGradient && step.stage == static_cast<std::int32_t>(stage);
    };
    return std::any_of(schedule.order.begin(), schedule.order.end(), [&](const auto &entry) {
        return std::any_of(entry.second.begin(), entry.second.end(), isWeights);
    });
}

std::vector<int> warmupDepths(const Plan &plan)
{
    const std::vector<int> &given = plan.schedule.warmup;
    std::vector<int> depths;
    for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
        std::int64_t depth = depthByKind(plan, stage);
        if (stage < given.size())
            depth =
                plan.schedule.kind == ScheduleKind::Custom ? given[stage] : std::min<std::int64_t>(depth, given[stage]);
        const std::int64_t most = std::clamp<std::int64_t>(plan.microBatches, 1, std::numeric_limits<int>::max());
        depths.push_back(static_cast<int>(std::clamp<std::int64_t>(depth, 1, most)));
    }
    return depths;
}

std::string replicaText(const Stage &stage)
{
    return stage.shards() > 1 ? fmt::format("{}x{}", stage.replicas(), stage.shards())
                              : std::to_string(stage.replicas());
}

std::string notation(const Plan &plan)
{
    if (plan.stages.empty())
        return "empty";
    if (plan.stages.size() == 1)
        return notationOfOne(plan.stages[0], plan.admm ? "time" : "TP");
    std::vector<std::string> replicas;
    std::vector<std::size_t> layers;
    for (const Stage &stage : plan.stages) {
        replicas.push_back(replicaText(stage));
        layers.push_back(stage.lastLayer - stage.firstLayer);
    }
    const bool straight = std::all_of(plan.stages.begin(), plan.stages.end(),
                                      [](const Stage &stage) { return stage.devices.size() == 1; });
    const std::string stages =
        straight ? "straight" : fmt::format("{} ({})", fmt::join(replicas, ":"), fmt::join(layers, ":"));
    const std::size_t places = stageGroups(plan).size();
    return places == plan.stages.size() ? stages
                                        : fmt::format("{}, {} stages on {} places", stages, plan.stages.size(), places);
}

} // namespace planloom::plan
