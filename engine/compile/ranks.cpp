// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/ranks.h"

#include "engine/cluster/cores.h"
#include "engine/compile/pass_order.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace planloom::compile {
namespace {

/// Tells custom orders apart; orders by kind are equal on all devices of a stage.
class OrderNumbers {
public:
    explicit OrderNumbers(const Source &source) : m_source(source) {}

    std::int32_t of(DeviceId device)
    {
        if (m_source.plan.schedule.kind != plan::ScheduleKind::Custom)
            return 0;
        const std::vector<PassStep> &order =
            m_source.plan.schedule.order.at(m_source.subject.cluster->device(device).name);
        return m_numbers.try_emplace(&order, static_cast<std::int32_t>(m_numbers.size())).first->second;
    }

private:
    struct ByContent {
        bool operator()(const std::vector<PassStep> *a, const std::vector<PassStep> *b) const { return *a < *b; }
    };
    const Source &m_source;
    std::map<const std::vector<PassStep> *, std::int32_t, ByContent> m_numbers;
};

} // namespace

bool PlannedRanks::shareCores() const
{
    return std::any_of(cores.begin(), cores.end(), [](std::int32_t core) { return core >= 0; });
}

PlannedRanks planRanks(const Source &source)
{
    PlannedRanks ranks;
    ranks.groups = plan::stageGroups(source.plan);
    ranks.ofStage.resize(source.plan.stages.size());
    for (const std::vector<std::size_t> &stages : ranks.groups) {
        ranks.begins.push_back(ranks.devices.size());
        const std::vector<DeviceId> &devices = source.plan.stages[stages.front()].devices;
        ranks.devices.insert(ranks.devices.end(), devices.begin(), devices.end());
        for (const std::size_t stage : stages)
            for (std::size_t device = 0; device < devices.size(); ++device)
                ranks.ofStage[stage].emplace_back(static_cast<std::int64_t>(ranks.begins.back() + device));
    }
    const auto &method = source.plan.admm;
    const int servers = method && method->parallel == admm::Parallel::Asynchronous ? 1 : 0;
    ranks.cores = cluster::coresOf(*source.subject.cluster, ranks.devices, servers);
    return ranks;
}

std::vector<std::int32_t> kindsOfRanks(const Source &source, const Samples &samples, const PlannedRanks &ranks)
{
    std::map<std::tuple<std::size_t, std::size_t, std::int32_t, double, double>, std::int32_t> numbers;
    std::vector<std::int32_t> kinds;
    for (std::size_t g = 0; g < ranks.groups.size(); ++g) {
        const StageId first(static_cast<std::int64_t>(ranks.groups[g].front()));
        const plan::Stage &stage = source.plan.stages[first.index()];
        OrderNumbers orders(source);
        for (std::size_t device = 0; device < stage.devices.size(); ++device) {
            const std::size_t replica = device / stage.shards();
            // Micro-batches have one of two sizes: that of the first and that of the last.
            const double largest = samples.slice(first, replica, 0);
            const double smallest = samples.slice(first, replica, source.plan.microBatches - 1);
            const std::size_t type = source.subject.cluster->device(stage.devices[device]).type;
            kinds.push_back(numbers
                                .try_emplace({g, type, orders.of(stage.devices[device]), largest, smallest},
                                             static_cast<std::int32_t>(numbers.size()))
                                .first->second);
        }
    }
    return kinds;
}

Ranks makeRanks(const Source &source, const PlannedRanks &planned, const Fold &fold)
{
    Ranks ranks;
    for (const RankId each : fold.representatives) {
        const auto group = static_cast<std::size_t>(
            std::upper_bound(planned.begins.begin(), planned.begins.end(), each.index()) - planned.begins.begin() - 1);
        const DeviceId device = planned.devices[each.index()];
        ranks.entries.push_back(
            {device, planned.cores[each.index()], 0,
             passOrder(source.plan, planned.groups[group], source.subject.cluster->device(device).name)});
    }
    for (const RankId standIn : fold.standIn)
        ++ranks.entries[standIn.index()].standsFor;
    ranks.ofStage = planned.ofStage;
    for (std::vector<RankId> &stage : ranks.ofStage)
        for (RankId &rank : stage)
            rank = fold.standIn[rank.index()];
    return ranks;
}

std::vector<Program::Place> placesOf(const PlannedRanks &planned, const Fold &fold)
{
    std::vector<Program::Place> places;
    for (std::size_t r = 0; r < planned.devices.size(); ++r)
        places.push_back({planned.devices[r], fold.standIn[r]});
    return places;
}

} // namespace planloom::compile
