// SPDX-License-Identifier: Apache-2.0
#include "planners/auto/edits.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace planloom::planners::automatic {
namespace {

constexpr std::int64_t kBucketMebis[] = {0, 1, 2, 5, 10, 15, 20, 40, 50, 100, 200, 400, 1000};
constexpr double kShareFactors[] = {0.5, 0.8, 0.9, 1.1, 1.25, 2};
constexpr std::int64_t kFarthestCut = 4;
constexpr std::size_t kFewStages = 8; ///< with more, devices go to neighbouring stages only

class Edits {
public:
    Edits(const plan::Plan &plan, const Problem &problem, const Settings &settings)
        : m_plan(plan),
          m_problem(problem),
          m_settings(settings)
    {
    }

    std::vector<plan::Plan> all()
    {
        counts();
        buckets();
        const bool ownDevices = plan::stageGroups(m_plan).size() == m_plan.stages.size();
        for (std::size_t s = 0; s < m_plan.stages.size(); ++s) {
            cuts(s);
            memory(s);
            if (!ownDevices)
                continue;
            warmup(s);
            devices(s);
            shares(s);
        }
        return std::move(m_all);
    }

private:
    template <class Change>
    void with(const Change &change)
    {
        m_all.push_back(m_plan);
        change(m_all.back());
    }

    void counts()
    {
        const std::int64_t now = m_plan.microBatches;
        for (const std::int64_t count :
             std::set<std::int64_t>{now / 4, now / 2, now * 3 / 4, now - 2, now - 1, now + 1, now + 2, now * 3 / 2,
                                    now * 2, now * 4, m_plan.globalBatch})
            if (count >= 1 && count <= m_plan.globalBatch && count != now && !m_problem.microBatch)
                with([count](plan::Plan &p) {
                    p.microBatches = count;
                    p.schedule.warmup.clear();
                });
    }

    void buckets()
    {
        const bool exchanges = std::any_of(m_plan.stages.begin(), m_plan.stages.end(),
                                           [](const plan::Stage &stage) { return stage.replicas() > 1; });
        for (const std::int64_t mebis : kBucketMebis)
            if (exchanges && mebis << 20 != m_plan.bucketBytes)
                with([mebis](plan::Plan &p) { p.bucketBytes = mebis << 20; });
    }

    /// By more than a layer; neighbours() moves them by one.
    void cuts(std::size_t s)
    {
        if (s + 1 == m_plan.stages.size())
            return;
        const auto first = static_cast<std::int64_t>(m_plan.stages[s].firstLayer);
        const auto cut = static_cast<std::int64_t>(m_plan.stages[s].lastLayer);
        const auto last = static_cast<std::int64_t>(m_plan.stages[s + 1].lastLayer);
        for (std::int64_t to = std::max(first + 1, cut - kFarthestCut); to < std::min(last, cut + kFarthestCut + 1);
             ++to)
            if (std::abs(to - cut) > 1)
                with([s, to](plan::Plan &p) {
                    p.stages[s].lastLayer = p.stages[s + 1].firstLayer = static_cast<std::size_t>(to);
                });
    }

    void memory(std::size_t s)
    {
        for (const int level : zeroLevels(m_problem, m_settings))
            if (m_plan.stages[s].replicas() > 1 && level != m_plan.stages[s].zero)
                with([s, level](plan::Plan &p) { p.stages[s].zero = level; });
    }

    void warmup(std::size_t s)
    {
        const std::vector<int> depths = plan::warmupDepths(m_plan);
        for (const int step : {-1, 1})
            if (m_plan.stages.size() > 1 && depths[s] + step >= 1 && depths[s] + step <= m_plan.microBatches)
                with([&](plan::Plan &p) {
                    p.schedule.warmup = depths;
                    p.schedule.warmup[s] += step;
                });
    }

    [[nodiscard]] std::size_t typeOf(DeviceId device) const { return m_problem.subject.cluster->device(device).type; }

    /// A device more or fewer, or another one's place; of equal devices one stands for all.
    void devices(std::size_t s)
    {
        const plan::Stage &stage = m_plan.stages[s];
        const bool plain = stage.mesh.empty();
        if (plain && stage.devices.size() > 1)
            with([s](plan::Plan &p) { dropLast(p.stages[s]); });
        for (std::size_t other = 0; other < m_plan.stages.size(); ++other) {
            const bool isNear = m_plan.stages.size() <= kFewStages || other == s + 1 || other + 1 == s;
            if (other == s || !isNear)
                continue;
            if (plain && m_plan.stages[other].mesh.empty() && stage.devices.size() > 1)
                with([s, other](plan::Plan &p) { append(p.stages[other], dropLast(p.stages[s])); });
            std::set<std::pair<std::size_t, std::size_t>> known;
            for (std::size_t a = 0; other > s && a < stage.devices.size(); ++a)
                for (std::size_t b = 0; b < m_plan.stages[other].devices.size(); ++b)
                    if (known.insert({typeOf(stage.devices[a]), typeOf(m_plan.stages[other].devices[b])}).second)
                        with([&](plan::Plan &p) { std::swap(p.stages[s].devices[a], p.stages[other].devices[b]); });
        }
        const std::vector<DeviceId> used = plan::devicesOf(m_plan);
        std::set<std::size_t> known;
        for (const cluster::Device &device : m_problem.subject.cluster->devices())
            if (plain && std::find(used.begin(), used.end(), device.id) == used.end()
                && known.insert(device.type).second)
                with([&](plan::Plan &p) { append(p.stages[s], device.id); });
    }

    static DeviceId dropLast(plan::Stage &stage)
    {
        const DeviceId last = stage.devices.back();
        stage.devices.pop_back();
        stage.replicaShares.clear();
        stage.zero = stage.devices.size() > 1 ? stage.zero : 0;
        return last;
    }

    static void append(plan::Stage &stage, DeviceId device)
    {
        stage.devices.push_back(device);
        stage.replicaShares.clear();
    }

    /// Of one replica of each type: the others make up for it. Only where devices differ.
    void shares(std::size_t s)
    {
        const plan::Stage &stage = m_plan.stages[s];
        std::set<std::size_t> types;
        for (const DeviceId device : stage.devices)
            types.insert(typeOf(device));
        if (types.size() < 2 || !stage.mesh.empty())
            return;
        if (!stage.replicaShares.empty())
            with([s](plan::Plan &p) { p.stages[s].replicaShares.clear(); });
        for (std::size_t r = 0; r < stage.devices.size(); ++r)
            for (const double factor : kShareFactors)
                with([&](plan::Plan &p) {
                    std::vector<double> &all = p.stages[s].replicaShares;
                    all.resize(stage.devices.size(), 1 / static_cast<double>(stage.devices.size()));
                    all[r] *= factor;
                    const double sum = std::accumulate(all.begin(), all.end(), 0.0);
                    for (double &share : all)
                        share /= sum;
                });
    }

    const plan::Plan &m_plan;
    const Problem &m_problem;
    const Settings &m_settings;
    std::vector<plan::Plan> m_all;
};

} // namespace

std::vector<plan::Plan> edits(const plan::Plan &plan, const Problem &problem, const Settings &settings)
{
    std::vector<plan::Plan> all = Edits(plan, problem, settings).all();
    for (const auto &changed : {variants, neighbours})
        for (plan::Plan &other : changed(plan, problem, settings))
            all.push_back(std::move(other));
    return all;
}

} // namespace planloom::planners::automatic
