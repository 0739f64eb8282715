// SPDX-License-Identifier: Apache-2.0
#include "planners/auto/simulations.h"

#include "engine/plan/stage_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>

namespace planloom::planners::automatic {
namespace {

constexpr std::size_t kBatch = 16;

/// Everything of a plan that the simulator looks at.
std::string fingerprint(const plan::Plan &plan)
{
    std::string text = fmt::format("{} {} {}", plan.microBatches, plan.bucketBytes, plan::name(plan.schedule.kind));
    for (const int depth : plan.schedule.warmup)
        text += fmt::format(" w{}", depth);
    for (const auto &[device, order] : plan.schedule.order) {
        text += fmt::format(" {}=", device);
        for (const schedule::PassStep &step : order)
            text += schedule::textOf(step) + ",";
    }
    text += " " + plan.schedule.lanePolicy;
    for (const plan::Stage &stage : plan.stages) {
        text += fmt::format("|{}-{} {}", stage.firstLayer, stage.lastLayer, plan::textOf(plan::settingsOf(stage)));
        for (const DeviceId device : stage.devices)
            text += fmt::format(" {}", device.value);
        for (const auto &[tensor, sbp] : stage.shardings)
            text += tensor + sbp;
    }
    return text;
}

std::int64_t peakOf(const simulate::Report &report)
{
    std::int64_t peak = 0;
    for (const simulate::DeviceReport &device : report.devices)
        peak = std::max(peak, device.peakBytes);
    return peak;
}

/// Calls @p work with 0 ... count - 1 on all cores.
template <class Work>
void inParallel(std::size_t count, const Work &work)
{
    std::atomic<std::size_t> next{0};
    const auto loop = [&] {
        for (std::size_t i = next++; i < count; i = next++)
            work(i);
    };
    std::vector<std::jthread> others;
    for (std::size_t t = 1; t < std::min<std::size_t>(count, std::thread::hardware_concurrency()); ++t)
        others.emplace_back(loop);
    loop();
}

} // namespace

double Simulations::bestSeconds() const
{
    return m_kept.empty() ? std::numeric_limits<double>::infinity() : m_kept.front().seconds();
}

bool Simulations::run(std::vector<plan::Plan> plans, const std::string &source, const Progress &progress)
{
    std::erase_if(plans, [this](const plan::Plan &plan) {
        return !m_keep.allows(plan) || !m_seen.try_emplace(fingerprint(plan), true).second;
    });
    bool better = false;
    for (std::size_t begin = 0; begin < plans.size() && !exhausted() && !progress.stopped(); begin += kBatch) {
        const std::size_t count = std::min({kBatch, plans.size() - begin, m_budget - m_count});
        std::vector<std::optional<Result<simulate::Simulation>>> results(count);
        inParallel(count, [&](std::size_t i) {
            results[i] = simulate::simulatePlan(plans[begin + i], m_subject,
                                                {.trace = false, .memory = false, .stages = &m_stages});
        });
        for (std::size_t i = 0; i < count; ++i)
            better = take(std::move(plans[begin + i]), *std::move(results[i]), source) || better;
    }
    return better;
}

bool Simulations::take(plan::Plan plan, Result<simulate::Simulation> simulation, const std::string &source)
{
    ++m_count;
    if (!simulation)
        return false;
    Simulated simulated{std::move(plan), std::move(simulation->report), source, 0};
    return add(std::move(simulated));
}

bool Simulations::add(Simulated simulated)
{
    if (!m_keep.allows(simulated.plan))
        return false;
    simulated.peakBytes = peakOf(simulated.report);
    if (!simulated.report.fits) {
        if (MemoryLimit limit = limitOf(simulated.plan, m_subject, simulated.report);
            !m_tightest || limit.factor() < m_tightest->factor())
            m_tightest = std::move(limit);
        insert(m_crowded, std::move(simulated));
        return false;
    }
    m_seen.try_emplace(fingerprint(simulated.plan), true);
    keepFront(simulated);
    return insert(m_kept, std::move(simulated));
}

/// True if it is the first now.
bool Simulations::insert(std::vector<Simulated> &list, Simulated simulated)
{
    const auto place =
        std::upper_bound(list.begin(), list.end(), simulated,
                         [](const Simulated &a, const Simulated &b) { return a.seconds() < b.seconds(); });
    const bool first = place == list.begin();
    if (place == list.end() && list.size() == kKept)
        return false;
    list.insert(place, std::move(simulated));
    if (list.size() > kKept)
        list.pop_back();
    return first;
}

void Simulations::keepFront(const Simulated &simulated)
{
    const auto beats = [](const Simulated &a, const Simulated &b) {
        return a.seconds() <= b.seconds() && a.peakBytes <= b.peakBytes;
    };
    if (std::any_of(m_front.begin(), m_front.end(), [&](const Simulated &other) { return beats(other, simulated); }))
        return;
    std::erase_if(m_front, [&](const Simulated &other) { return beats(simulated, other); });
    m_front.insert(std::upper_bound(m_front.begin(), m_front.end(), simulated,
                                    [](const Simulated &a, const Simulated &b) { return a.seconds() < b.seconds(); }),
                   simulated);
}

} // namespace planloom::planners::automatic
