// SPDX-License-Identifier: Apache-2.0
#include "planners/joint/simulations.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>

namespace planloom::planners::joint {
namespace {

constexpr std::size_t kBatch = 16;

/// Everything of a plan that the simulator looks at.
std::string fingerprint(const plan::Plan &plan)
{
    std::string text = fmt::format("{} {}", plan.microBatches, plan::name(plan.schedule.kind));
    for (const int depth : plan.schedule.warmup)
        text += fmt::format(" w{}", depth);
    for (const auto &[device, order] : plan.schedule.order)
        text += fmt::format(" {}={}", device, fmt::join(order, ","));
    for (const plan::Stage &stage : plan.stages) {
        text += fmt::format("|{}-{} z{} r{} q{} m{}", stage.firstLayer, stage.lastLayer, stage.zero, static_cast<int>(stage.recompute), stage.registers, fmt::join(stage.mesh, "x"));
        for (const DeviceId device : stage.devices)
            text += fmt::format(" {}", device.value);
        text += fmt::format(" s{}", fmt::join(stage.replicaShares, ","));
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

double Simulations::bestSeconds() const { return m_kept.empty() ? std::numeric_limits<double>::infinity() : m_kept.front().seconds(); }

bool Simulations::run(std::vector<plan::Plan> plans, const std::string &source, const Progress &progress)
{
    std::erase_if(plans, [this](const plan::Plan &plan) { return !m_seen.try_emplace(fingerprint(plan), true).second; });
    bool better = false;
    for (std::size_t begin = 0; begin < plans.size() && !exhausted() && !progress.stopped(); begin += kBatch) {
        const std::size_t count = std::min({kBatch, plans.size() - begin, m_budget - m_count});
        std::vector<std::optional<Result<simulate::Simulation>>> results(count);
        inParallel(count, [&](std::size_t i) { results[i] = simulate::simulatePlan(plans[begin + i], m_subject, {.trace = false, .memory = false, .stages = &m_stages}); });
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
    Known known{std::move(plan), std::move(simulation->report), source, 0};
    return add(std::move(known));
}

bool Simulations::add(Known known)
{
    known.peakBytes = peakOf(known.report);
    if (!known.report.fits) {
        if (MemoryLimit limit = limitOf(known.plan, m_subject, known.report); !m_tightest || limit.factor() < m_tightest->factor())
            m_tightest = std::move(limit);
        return false;
    }
    m_seen.try_emplace(fingerprint(known.plan), true);
    keepFront(known);
    const auto place = std::upper_bound(m_kept.begin(), m_kept.end(), known, [](const Known &a, const Known &b) { return a.seconds() < b.seconds(); });
    const bool first = place == m_kept.begin();
    m_kept.insert(place, std::move(known));
    if (m_kept.size() > kKept)
        m_kept.pop_back();
    return first;
}

void Simulations::keepFront(const Known &known)
{
    const auto beats = [](const Known &a, const Known &b) { return a.seconds() <= b.seconds() && a.peakBytes <= b.peakBytes; };
    if (std::any_of(m_front.begin(), m_front.end(), [&](const Known &other) { return beats(other, known); }))
        return;
    std::erase_if(m_front, [&](const Known &other) { return beats(known, other); });
    m_front.insert(std::upper_bound(m_front.begin(), m_front.end(), known, [](const Known &a, const Known &b) { return a.seconds() < b.seconds(); }), known);
}

} // namespace planloom::planners::joint
