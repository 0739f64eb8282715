// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planners/interface/planner.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

/// Edits of one field of a plan, and plans at random. Some of them are invalid.
namespace planloom::bench {

struct Edit {
    std::string what;
    plan::Plan plan;
};

class PlanEdits {
public:
    PlanEdits(const plan::Plan &plan, const planners::Problem &problem) : m_plan(plan), m_problem(problem) {}

    std::vector<Edit> all()
    {
        microBatches();
        schedules();
        buckets();
        for (std::size_t s = 0; s < m_plan.stages.size(); ++s) {
            boundary(s);
            memory(s);
            warmup(s);
            shares(s);
            devices(s);
        }
        return std::move(m_edits);
    }

private:
    template <class Change>
    void with(std::string what, const Change &change)
    {
        m_edits.push_back({std::move(what), m_plan});
        change(m_edits.back().plan);
    }

    void microBatches()
    {
        const std::int64_t now = m_plan.microBatches;
        for (const std::int64_t count : {now - 2, now - 1, now + 1, now + 2, now / 2, now * 2, now * 3 / 2, now * 3 / 4,
                                         now / 4, now * 4, m_plan.globalBatch})
            if (count >= 1 && count <= m_plan.globalBatch)
                with("micro-batches " + std::to_string(count), [count](plan::Plan &p) {
                    p.microBatches = count;
                    p.schedule.warmup.clear();
                });
    }

    void schedules()
    {
        for (const char *name : {"gpipe", "1f1b", "dapple-a", "dapple-b", "zb-h1"})
            with(std::string("schedule ") + name, [name](plan::Plan &p) {
                p.schedule.kind = *plan::scheduleFromName(name);
                p.schedule.warmup.clear();
            });
        for (const char *policy : {"fifo"})
            with(std::string("lane policy ") + policy, [policy](plan::Plan &p) { p.schedule.lanePolicy = policy; });
    }

    void buckets()
    {
        for (const std::int64_t mebi : {0, 1, 2, 5, 10, 15, 20, 40, 50, 100, 200, 400, 1000})
            with("buckets of " + std::to_string(mebi) + " MiB", [mebi](plan::Plan &p) { p.bucketBytes = mebi << 20; });
    }

    void boundary(std::size_t s)
    {
        if (s + 1 >= m_plan.stages.size())
            return;
        for (const int step : {-4, -3, -2, -1, 1, 2, 3, 4})
            with("boundary " + std::to_string(s) + " by " + std::to_string(step), [s, step](plan::Plan &p) {
                const auto at = static_cast<std::int64_t>(p.stages[s].lastLayer) + step;
                const auto low = static_cast<std::int64_t>(p.stages[s].firstLayer) + 1;
                const auto high = static_cast<std::int64_t>(p.stages[s + 1].lastLayer) - 1;
                p.stages[s].lastLayer = static_cast<std::size_t>(std::clamp(at, low, std::max(low, high)));
                p.stages[s + 1].firstLayer = p.stages[s].lastLayer;
            });
    }

    void memory(std::size_t s)
    {
        const std::string stage = "stage " + std::to_string(s);
        for (const char *again : {"none", "selective", "layers", "full"})
            with(stage + ": recompute " + again,
                 [s, again](plan::Plan &p) { p.stages[s].recompute = *plan::recomputeFromName(again); });
        for (int level = 0; level <= 3; ++level)
            with(stage + ": ZeRO " + std::to_string(level), [s, level](plan::Plan &p) { p.stages[s].zero = level; });
        for (int slots = 0; slots <= 4; ++slots)
            with(stage + ": registers " + std::to_string(slots),
                 [s, slots](plan::Plan &p) { p.stages[s].registers = slots; });
    }

    void warmup(std::size_t s)
    {
        for (const int step : {-2, -1, 1, 2})
            with("stage " + std::to_string(s) + ": warm-up by " + std::to_string(step), [s, step](plan::Plan &p) {
                p.schedule.warmup = plan::warmupDepths(p);
                p.schedule.warmup[s] = std::max(1, p.schedule.warmup[s] + step);
            });
    }

    void shares(std::size_t s)
    {
        const std::size_t replicas = m_plan.stages[s].replicas();
        if (replicas < 2)
            return;
        with("stage " + std::to_string(s) + ": equal shares",
             [s](plan::Plan &p) { p.stages[s].replicaShares.clear(); });
        for (std::size_t r = 0; r < replicas; ++r)
            for (const double factor : {0.5, 0.8, 0.9, 1.1, 1.25, 2.0})
                with("stage " + std::to_string(s) + ": share " + std::to_string(r) + " times " + std::to_string(factor),
                     [=](plan::Plan &p) {
                         std::vector<double> &all = p.stages[s].replicaShares;
                         if (all.empty())
                             all.assign(replicas, 1.0 / static_cast<double>(replicas));
                         all[r] *= factor;
                         const double sum = std::accumulate(all.begin(), all.end(), 0.0);
                         for (double &share : all)
                             share /= sum;
                     });
    }

    void devices(std::size_t s)
    {
        std::vector<DeviceId> used = plan::devicesOf(m_plan);
        for (const cluster::Device &device : m_problem.subject.cluster->devices()) {
            const bool isUsed = std::find(used.begin(), used.end(), device.id) != used.end();
            for (std::size_t d = 0; d < m_plan.stages[s].devices.size(); ++d)
                if (m_plan.stages[s].devices[d] != device.id)
                    with("stage " + std::to_string(s) + ": device " + std::to_string(d) + " is "
                             + std::to_string(device.id.value),
                         [&](plan::Plan &p) { exchange(p, m_plan.stages[s].devices[d], device.id); });
            if (!isUsed && m_plan.stages[s].mesh.empty())
                with("stage " + std::to_string(s) + ": one more device", [&](plan::Plan &p) {
                    p.stages[s].devices.push_back(device.id);
                    p.stages[s].replicaShares.clear();
                });
        }
        if (m_plan.stages[s].mesh.empty() && m_plan.stages[s].devices.size() > 1)
            with("stage " + std::to_string(s) + ": one device fewer", [s](plan::Plan &p) {
                p.stages[s].devices.pop_back();
                p.stages[s].replicaShares.clear();
            });
        for (std::size_t other = 0; other < m_plan.stages.size(); ++other)
            if (other != s && m_plan.stages[s].mesh.empty() && m_plan.stages[other].mesh.empty()
                && m_plan.stages[s].devices.size() > 1)
                with("stage " + std::to_string(s) + ": a device to stage " + std::to_string(other),
                     [s, other](plan::Plan &p) {
                         p.stages[other].devices.push_back(p.stages[s].devices.back());
                         p.stages[s].devices.pop_back();
                         p.stages[s].replicaShares.clear();
                         p.stages[other].replicaShares.clear();
                     });
    }

    /// Wherever one stands, the other does.
    static void exchange(plan::Plan &plan, DeviceId a, DeviceId b)
    {
        for (plan::Stage &stage : plan.stages)
            for (DeviceId &device : stage.devices)
                device = device == a ? b : device == b ? a : device;
    }

    const plan::Plan &m_plan;
    const planners::Problem &m_problem;
    std::vector<Edit> m_edits;
};

/// A plan at random: cuts, runs of devices in the cluster's order or any other, micro-batches, an order of passes,
/// recomputation and ZeRO.
inline plan::Plan randomPlan(const planners::Problem &problem, std::mt19937 &random)
{
    const auto below = [&](std::size_t limit) {
        return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
    };
    plan::Plan plan = planners::emptyPlan(problem, "manual", {});
    std::vector<DeviceId> devices;
    for (const cluster::Device &device : problem.subject.cluster->devices())
        devices.push_back(device.id);
    if (below(4) == 0)
        std::shuffle(devices.begin(), devices.end(), random);
    const std::size_t layers = problem.subject.layers().size();
    const std::size_t stages = 1 + below(std::min({layers, devices.size(), std::size_t{6}}));
    const auto cutsOf = [&](std::size_t all) {
        std::vector<std::size_t> cuts(all - 1);
        std::iota(cuts.begin(), cuts.end(), std::size_t{1});
        std::shuffle(cuts.begin(), cuts.end(), random);
        cuts.resize(stages - 1);
        std::sort(cuts.begin(), cuts.end());
        cuts.insert(cuts.begin(), 0);
        cuts.push_back(all);
        return cuts;
    };
    const std::vector<std::size_t> atLayer = cutsOf(layers);
    const std::vector<std::size_t> atDevice = cutsOf(devices.size());
    const plan::ScheduleKind kinds[] = {plan::ScheduleKind::GPipe, plan::ScheduleKind::OneF1B,
                                        plan::ScheduleKind::DappleA, plan::ScheduleKind::DappleB,
                                        plan::ScheduleKind::ZeroBubbleH1};
    plan.schedule.kind = kinds[below(std::size(kinds))];
    plan.microBatches = std::max<std::int64_t>(1, problem.globalBatch >> below(8));
    const bool profile = graph::isLayerProfile(*problem.subject.graph);
    for (std::size_t s = 0; s < stages; ++s) {
        plan::Stage stage;
        stage.name = "stage" + std::to_string(s);
        stage.firstLayer = atLayer[s];
        stage.lastLayer = atLayer[s + 1];
        stage.devices.assign(devices.begin() + static_cast<std::ptrdiff_t>(atDevice[s]),
                             devices.begin() + static_cast<std::ptrdiff_t>(atDevice[s + 1]));
        stage.zero = stage.devices.size() > 1 ? static_cast<int>(below(profile ? 2 : 4)) : 0;
        if (below(4) == 0)
            stage.recompute = profile || below(2) == 0 ? plan::Recompute::Full : plan::Recompute::Layers;
        plan.stages.push_back(std::move(stage));
    }
    return plan;
}

} // namespace planloom::bench
