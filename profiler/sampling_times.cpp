// SPDX-License-Identifier: Apache-2.0
#include "profiler/sampling_times.h"

#include "engine/base/statistics.h"
#include "executor/runtime/sampled_services.h"
#include "executor/runtime/sampled_source.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace planloom::profiler {
namespace {

constexpr std::int64_t kBatches = 40;
constexpr std::int64_t kWarmUp = 5; // of them

/// Seconds that @p work takes.
template <class Work>
double secondsOf(const Work &work)
{
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Samples that one sampler draws in a step.
std::int64_t samplesOfOne(const plan::Plan &plan)
{
    const auto samplers = std::ranges::count(plan.roles, gnn::RoleKind::Sampler, &plan::PlacedRole::kind);
    return std::max<std::int64_t>(1, plan.globalBatch / std::max<std::int64_t>(1, samplers));
}

} // namespace

Status measureSampling(const plan::Plan &plan, plan::BatchForm form, const std::string &folder, cost::Profile &profile)
{
    if (!plan.job)
        return badInput("the plan samples no graph; leave out --graph, or plan with planner gnn");
    run::Request request;
    request.settings.data = folder;
    auto source = runtime::SampledSource::open(plan, request);
    if (!source)
        return source.error();
    source->keepFeatures(0);
    const std::int64_t samples = samplesOfOne(plan);
    runtime::AskedRows asked(static_cast<std::size_t>(plan.job->graph.parts));
    std::vector<std::byte> rows, batch;
    std::vector<double> draws, packs, loads;
    for (std::int64_t step = 0; step < kBatches; ++step) {
        const runtime::SampledRange range{step, 0, samples};
        runtime::SampledDraw draw;
        const double drawn = secondsOf([&] {
            draw = source->draw(range, form);
            asked.ask(*source, draw);
        });
        const double packed = secondsOf([&] { runtime::packRows(*source, asked.nodes(0), rows); });
        for (std::int32_t part = 0; part < plan.job->graph.parts; ++part) {
            const auto p = static_cast<std::size_t>(part);
            asked.answer(p).resize(static_cast<std::size_t>(
                runtime::rowBytes(static_cast<std::int64_t>(asked.nodes(p).size()), plan.job->graph.features)));
        }
        const double loaded =
            secondsOf([&] { asked.putTogether(*source, draw, range, plan.job->fanout, form, batch); });
        if (step < kWarmUp)
            continue;
        const auto places = static_cast<double>(draw.places.size());
        draws.push_back(drawn / places);
        loads.push_back(loaded / places);
        if (!asked.nodes(0).empty())
            packs.push_back(packed / static_cast<double>(asked.nodes(0).size()));
    }
    profile.extra["sampler_draw_seconds_per_place"] = median(std::move(draws));
    profile.extra["sampler_load_seconds_per_place"] = median(std::move(loads));
    profile.extra["store_seconds_per_row"] = packs.empty() ? 0 : median(std::move(packs));
    return {};
}

} // namespace planloom::profiler
