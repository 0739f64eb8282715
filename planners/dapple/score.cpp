// SPDX-License-Identifier: Apache-2.0
#include "planners/dapple/score.h"

#include "engine/compile/stage_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace planloom::planners::dapple {
namespace {

std::size_t mostReplicas(const Spans &spans)
{
    std::size_t most = 0;
    for (const Span &span : spans)
        most = std::max(most, span.devices.size());
    return most;
}

std::vector<std::size_t> replicasOf(const Spans &spans)
{
    std::vector<std::size_t> counts;
    for (const Span &span : spans)
        counts.push_back(span.devices.size());
    return counts;
}

bool isHalfDuplex(const Settings &settings, const cluster::Cluster &cluster)
{
    if (settings.duplex == Duplex::Auto)
        return cluster.commModel() == cluster::CommModel::TwoLevel || !cluster.fullDuplex();
    return settings.duplex == Duplex::Half;
}

SharedCores::Stages stagesOf(const Spans &spans)
{
    SharedCores::Stages stages;
    for (const Span &span : spans)
        stages.emplace_back(span.devices);
    return stages;
}

/// Depths of the chain's entries: compute stages and the links between them.
std::vector<int> entryDepths(const std::vector<int> &depths)
{
    std::vector<int> entries;
    for (std::size_t i = 0; i < depths.size(); ++i) {
        if (i > 0)
            entries.push_back(linkDepth(depths[i - 1], depths[i]));
        entries.push_back(depths[i]);
    }
    return entries;
}

std::vector<Warmup> policiesOf(const Settings &settings)
{
    if (settings.order == Order::GPipe)
        return {Warmup::AllForwards};
    if (settings.order == Order::OneF1B || settings.warmup == WarmupChoice::A)
        return {Warmup::A};
    if (settings.warmup == WarmupChoice::B)
        return {Warmup::B};
    return {Warmup::A, Warmup::B};
}

} // namespace

Scorer::Scorer(const Problem &problem, const Settings &settings, const MemoryModel &memory, std::int64_t perDevice)
    : m_problem(&problem),
      m_settings(&settings),
      m_memory(&memory),
      m_perDevice(perDevice),
      m_halfDuplex(isHalfDuplex(settings, *problem.subject.cluster)),
      m_sameBothWays(problem.subject.cluster->commModel() == cluster::CommModel::TwoLevel),
      m_wholeSamples(!graph::isLayerProfile(*problem.subject.graph)),
      m_cores(*problem.subject.cluster)
{
    const cost::CostModel &costs = *problem.subject.costs;
    const auto batch = static_cast<double>(problem.globalBatch);
    const double samples = std::min(batch, static_cast<double>(perDevice));
    const std::size_t type = problem.subject.cluster->devices().front().type;
    m_oneDevice = batch / samples
        * (costs.forward(0, layerCount(), samples, type) + costs.backward(0, layerCount(), samples, type)).value();
}

std::optional<Scorer::Slices> Scorer::slices(const Spans &spans) const
{
    const std::int64_t batch = m_problem->globalBatch;
    const auto most = static_cast<std::int64_t>(mostReplicas(spans));
    if (batch < most)
        return std::nullopt;
    const std::int64_t together = std::min(batch, m_perDevice * most);
    Slices slices;
    slices.count = batch / together;
    const bool drop = m_settings->remainder == Remainder::Drop;
    slices.samples =
        drop ? static_cast<double>(together) : static_cast<double>(batch) / static_cast<double>(slices.count);
    return slices;
}

double Scorer::slice(const Slices &slices, std::size_t replicas) const
{
    const auto count = static_cast<double>(replicas);
    return m_wholeSamples ? std::ceil(std::ceil(slices.samples) / count) : slices.samples / count;
}

const Scorer::Sums &Scorer::sums(std::size_t type, double samples)
{
    const auto [entry, isNew] = m_sums.try_emplace({type, samples});
    if (isNew) {
        for (std::size_t k = 0; k <= layerCount(); ++k) {
            entry->second.forward.push_back(subject().costs->forward(0, k, samples, type).value());
            entry->second.backward.push_back(subject().costs->backward(0, k, samples, type).value());
        }
    }
    return entry->second;
}

/// Forward and backward seconds of one slice of @p samples on the slowest of the span's devices.
std::pair<double, double> Scorer::passes(const Span &span, double samples)
{
    std::pair<double, double> slowest{0, 0};
    std::size_t known = subject().cluster->types().size();
    for (const DeviceId device : span.devices) {
        const std::size_t type = subject().cluster->device(device).type;
        if (type == known)
            continue;
        known = type;
        const Sums &table = sums(type, samples);
        slowest.first = std::max(slowest.first, table.forward[span.last] - table.forward[span.first]);
        slowest.second = std::max(slowest.second, table.backward[span.last] - table.backward[span.first]);
    }
    return slowest;
}

/// Activations there, gradients back. The two-level rules are stated for activations; the paper takes the same time for
/// gradients.
std::pair<double, double> Scorer::sends(const Span &from, const Span &to, double samples) const
{
    const double bytes = m_memory->cutBytes(to.first) * samples;
    const double there = subject().costs->transfer(from.devices, to.devices, bytes).value();
    const double back = m_sameBothWays ? there : subject().costs->transfer(to.devices, from.devices, bytes).value();
    return {there, back};
}

Chain Scorer::chainOf(const Spans &spans, const Slices &slices)
{
    Chain chain;
    chain.microBatches = slices.count;
    chain.gpipe = m_settings->order == Order::GPipe;
    const std::size_t entries = 2 * spans.size() - 1;
    chain.forward.reserve(entries);
    chain.backward.reserve(entries);
    chain.allReduce.reserve(entries);
    for (std::size_t i = 0; i < spans.size(); ++i) {
        if (i > 0) {
            const auto [there, back] = sends(spans[i - 1], spans[i], slices.samples);
            chain.forward.push_back(there);
            chain.backward.push_back(back);
            chain.allReduce.push_back(0);
        }
        const auto [forward, backward] = passes(spans[i], slice(slices, spans[i].devices.size()));
        chain.forward.push_back(forward);
        chain.backward.push_back(backward);
        const auto bytes = static_cast<double>(subject().costs->parameterBytes(spans[i].first, spans[i].last).value());
        chain.allReduce.push_back(subject().costs->allReduce(spans[i].devices, bytes).value());
    }
    if (!m_halfDuplex)
        for (std::size_t s = 0; s < entries; ++s)
            chain.fullDuplex.push_back(s % 2 == 1);
    if (m_cores.any())
        stretch(spans, chain);
    return chain;
}

/// Replicas that share a core take as many times longer.
void Scorer::stretch(const Spans &spans, Chain &chain) const
{
    const std::vector<double> crowds = m_cores.crowds(stagesOf(spans));
    for (std::size_t i = 0; i < spans.size(); ++i) {
        chain.forward[2 * i] *= crowds[i];
        chain.backward[2 * i] *= crowds[i];
    }
}

/// Stages that share a core have to wait for each other where both have work.
double Scorer::sharedSeconds(const Scored &scored) const
{
    const SharedCores::Stages stages = stagesOf(scored.spans);
    const std::vector<double> crowds = m_cores.crowds(stages);
    std::vector<double> seconds;
    for (std::size_t i = 0; i < stages.size(); ++i)
        seconds.push_back(static_cast<double>(scored.microBatches)
                          * (scored.chain.forward[2 * i] + scored.chain.backward[2 * i]) / crowds[i]);
    return m_cores.busiest(stages, seconds);
}

bool Scorer::holds(const Span &span) const
{
    if (!m_settings->keep.allows(span.first, span.last, span.devices.size()))
        return false;
    const double needed = m_memory->persistent(span.first, span.last);
    return std::all_of(span.devices.begin(), span.devices.end(),
                       [&](DeviceId device) { return needed <= m_memory->usable(device); });
}

void Scorer::noteShortage(const Spans &spans, const Span &span, double needed, double usable)
{
    if (needed - usable >= m_shortage.missing)
        return;
    m_shortage = {needed - usable, needed, usable, m_memory->persistent(span.first, span.last), spans.size(), span};
}

/// Decides recomputation and @p most, the micro-batches that each stage's memory can keep in flight (DAPPLE's D).
bool Scorer::fit(const Spans &spans, const Slices &slices, Scored &scored, std::vector<int> &most)
{
    const Span *tightest = nullptr;
    double needed = 0;
    double available = 0;
    for (const Span &span : spans) {
        double usable = std::numeric_limits<double>::infinity();
        for (const DeviceId device : span.devices)
            usable = std::min(usable, m_memory->usable(device));
        const double samples = slice(slices, span.devices.size());
        const double least = m_settings->order == Order::GPipe ? static_cast<double>(slices.count) : 1;
        StageFootprint footprint = m_memory->footprint(span.first, span.last, samples, false);
        bool recompute = false;
        if (footprint.fixed + least * footprint.perMicroBatch > usable && m_settings->recompute) {
            recompute = true;
            footprint = m_memory->footprint(span.first, span.last, samples, true);
        }
        const double wants = footprint.fixed + least * footprint.perMicroBatch;
        if (wants > usable && wants - usable > needed - available) {
            tightest = &span;
            needed = wants;
            available = usable;
        }
        const double room = footprint.perMicroBatch > 0 ? (usable - footprint.fixed) / footprint.perMicroBatch
                                                        : static_cast<double>(slices.count);
        int depth = static_cast<int>(std::clamp(std::floor(room), 1.0, static_cast<double>(slices.count)));
        if (m_settings->maxInFlight > 0 && m_settings->order != Order::GPipe)
            depth = std::min(depth, m_settings->maxInFlight);
        most.push_back(depth);
        scored.recompute.push_back(recompute);
    }
    if (tightest)
        noteShortage(spans, *tightest, needed, available);
    return tightest == nullptr;
}

/// Times the plan under @p policy and keeps it if it is the first or faster than @p scored.
void Scorer::time(Scored &scored, const std::vector<int> &most, Warmup policy, bool isFirst)
{
    std::vector<int> depths = warmupDepths(policy, most, scored.microBatches);
    if (!isFirst && depths == scored.depths)
        return;
    std::vector<int> before = std::exchange(scored.chain.depth, entryDepths(depths));
    double events = m_clock.seconds(scored.chain);
    if (m_cores.any())
        events = std::max(events, sharedSeconds(scored));
    if (!isFirst && events >= scored.events * (1 - 1e-12)) {
        scored.chain.depth = std::move(before);
        return;
    }
    scored.events = events;
    scored.warmup = policy;
    scored.depths = std::move(depths);
}

std::optional<Scored> Scorer::score(const Spans &spans, double bound)
{
    for (const Span &span : spans)
        if (!m_settings->keep.allows(span.first, span.last, span.devices.size()))
            return std::nullopt;
    const std::optional<Slices> cut = slices(spans);
    if (!cut)
        return std::nullopt;
    Scored scored;
    scored.chain = chainOf(spans, *cut);
    if (m_settings->evaluator == Evaluator::Simulation && lowerBound(scored.chain) > bound * (1 + 1e-9))
        return std::nullopt;
    std::vector<int> most;
    if (!fit(spans, *cut, scored, most))
        return std::nullopt;
    for (std::size_t i = 0; i < spans.size(); ++i)
        if (scored.recompute[i])
            scored.chain.backward[2 * i] += scored.chain.forward[2 * i];
    scored.spans = spans;
    scored.perDevice = m_perDevice;
    scored.microBatches = cut->count;
    bool isFirst = true;
    for (const Warmup policy : policiesOf(*m_settings))
        time(scored, most, policy, std::exchange(isFirst, false));
    scored.objective = scored.events;
    if (m_settings->evaluator == Evaluator::Formula)
        scored.objective = formulaLatency(scored.chain).total();
    if (m_settings->evaluator == Evaluator::Shipped)
        scored.objective = shippedSeconds(shippedInput(spans));
    scored.speedup = scored.events > 0 ? m_oneDevice / scored.events : 1;
    if (!std::isfinite(scored.objective))
        return std::nullopt;
    return scored;
}

Scored Scorer::capped(Scored scored, const std::vector<int> &most)
{
    time(scored, most, scored.warmup, true);
    scored.speedup = scored.events > 0 ? m_oneDevice / scored.events : 1;
    return scored;
}

double Scorer::load(const Span &span, const Span *before)
{
    auto batch = static_cast<double>(m_problem->globalBatch);
    if (m_settings->remainder == Remainder::Drop)
        batch = std::max(
            0.0, batch - static_cast<double>(m_perDevice) * static_cast<double>(subject().cluster->devices().size()));
    if (batch <= 0)
        return 0;
    const auto [forward, backward] = passes(span, batch / static_cast<double>(span.devices.size()));
    double longest = forward + backward;
    if (before != nullptr) {
        const auto [there, back] = sends(*before, span, batch);
        longest = std::max(longest, m_halfDuplex ? there + back : std::max(there, back));
    }
    return longest;
}

ShippedInput Scorer::shippedInput(const Spans &spans)
{
    std::size_t pipelines = 0;
    for (const Span &span : spans)
        pipelines = std::gcd(pipelines, span.devices.size());
    ShippedInput input;
    input.pipelines = static_cast<double>(pipelines);
    const std::int64_t batch = m_problem->globalBatch;
    input.microBatches = batch / static_cast<std::int64_t>(pipelines) / m_perDevice;
    input.total = m_oneDevice;
    const double all = static_cast<double>(batch) / static_cast<double>(m_perDevice);
    for (std::size_t i = 0; i < spans.size(); ++i) {
        const Span &span = spans[i];
        const auto [forward, backward] = passes(span, static_cast<double>(m_perDevice));
        input.stage.push_back((forward + backward) * all / static_cast<double>(span.devices.size()));
        const auto bytes = static_cast<double>(subject().costs->parameterBytes(span.first, span.last).value());
        input.allReduce.push_back(subject().costs->allReduce(span.devices, bytes).value());
        if (i == 0)
            continue;
        // Pipeline 0 has the first devices of each stage.
        const auto share = [&](const Span &stage) {
            return std::span(stage.devices).first(stage.devices.size() / pipelines);
        };
        const double samples = static_cast<double>(batch) / input.pipelines;
        input.cut.push_back(
            subject()
                .costs->transfer(share(spans[i - 1]), share(span), m_memory->cutBytes(span.first) * samples)
                .value());
    }
    return input;
}

void Pool::offer(Scored scored)
{
    const auto sameShape = [&](const Scored &other) {
        return other.perDevice == scored.perDevice && other.spans == scored.spans;
    };
    if (std::any_of(m_plans.begin(), m_plans.end(), sameShape))
        return;
    const std::vector<std::size_t> kind = replicasOf(scored.spans);
    const auto precedes = [this](const Scored &a, const Scored &b) {
        if (better(a.objective, a.spans, b.objective, b.spans))
            return true;
        return !better(b.objective, b.spans, a.objective, a.spans) && a.perDevice < b.perDevice;
    };
    m_plans.insert(std::upper_bound(m_plans.begin(), m_plans.end(), scored, precedes), std::move(scored));
    dropOneOf(kind);
    if (m_plans.size() > m_capacity)
        m_plans.pop_back();
}

/// Removes the worst plan of a kind of which there are too many.
void Pool::dropOneOf(const std::vector<std::size_t> &kind)
{
    std::size_t count = 0;
    for (auto plan = m_plans.begin(); plan != m_plans.end(); ++plan) {
        if (replicasOf(plan->spans) == kind && ++count > kPerShape) {
            m_plans.erase(plan);
            return;
        }
    }
}

double Pool::bound() const
{
    return m_plans.size() < m_capacity ? std::numeric_limits<double>::infinity() : m_plans.back().objective;
}

bool Pool::better(double seconds, const Spans &spans, double otherSeconds, const Spans &others) const
{
    const double a = std::round(seconds / m_unit);
    const double b = std::round(otherSeconds / m_unit);
    if (a != b)
        return a < b;
    if (spans.size() != others.size())
        return spans.size() < others.size();
    return spans < others;
}

} // namespace planloom::planners::dapple
