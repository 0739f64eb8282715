// SPDX-License-Identifier: Apache-2.0
#include "profiler/sampling_times.h"

#include "engine/base/statistics.h"
#include "executor/runtime/affinity.h"
#include "executor/runtime/sampled_services.h"
#include "executor/runtime/sampled_source.h"
#include "profiler/rank_threads.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <mutex>
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

std::int64_t samplersOf(const plan::Plan &plan)
{
    return std::max<std::int64_t>(1, std::ranges::count(plan.roles, gnn::RoleKind::Sampler, &plan::PlacedRole::kind));
}

/// Seconds of the tasks, by place and by row.
struct Times {
    std::vector<double> draws, packs, loads;
};

/// A sampler and a store on one core.
class Sampling {
public:
    Sampling(const plan::Plan &plan, plan::BatchForm form, const runtime::SampledSource &source)
        : m_plan(plan),
          m_form(form),
          m_source(source),
          m_asked(static_cast<std::size_t>(plan.job->graph.parts))
    {
    }

    void measure(const runtime::SampledRange &range, Times &times)
    {
        runtime::SampledDraw draw;
        const double drawn = secondsOf([&] {
            draw = m_source.draw(range, m_form);
            m_asked.ask(m_source, draw);
        });
        const double packed = secondsOf([&] { runtime::packRows(m_source, m_asked.nodes(0), m_rows); });
        for (std::int32_t part = 0; part < m_plan.job->graph.parts; ++part) {
            const auto p = static_cast<std::size_t>(part);
            m_asked.answer(p).resize(static_cast<std::size_t>(
                runtime::rowBytes(static_cast<std::int64_t>(m_asked.nodes(p).size()), m_plan.job->graph.features)));
        }
        const double loaded =
            secondsOf([&] { m_asked.putTogether(m_source, draw, range, m_plan.job->fanout, m_form, m_batch); });
        const auto places = static_cast<double>(draw.places.size());
        times.draws.push_back(drawn / places);
        times.loads.push_back(loaded / places);
        if (!m_asked.nodes(0).empty())
            times.packs.push_back(packed / static_cast<double>(m_asked.nodes(0).size()));
    }

private:
    const plan::Plan &m_plan;
    plan::BatchForm m_form;
    const runtime::SampledSource &m_source;
    runtime::AskedRows m_asked;
    std::vector<std::byte> m_rows, m_batch;
};

} // namespace

Status measureSampling(const plan::Plan &plan, plan::BatchForm form, const std::string &folder, int ranks,
                       cost::Profile &profile)
{
    if (!plan.job)
        return badInput("the plan samples no graph; leave out --graph, or plan with planner gnn");
    run::Request request;
    request.settings.data = folder;
    auto source = runtime::SampledSource::open(plan, request);
    if (!source)
        return source.error();
    source->keepFeatures(0);
    const std::int64_t samplers = samplersOf(plan);
    const std::int64_t samples = std::max<std::int64_t>(1, plan.globalBatch / samplers);
    Times all;
    std::mutex mutex;
    const int together = std::clamp(ranks, 1, runtime::coresHere());
    RankThreads::run(together, 1, [&](int rank, RankThreads &threads) {
        Sampling sampling(plan, form, *source);
        Times times;
        for (std::int64_t step = 0; step < kBatches; ++step) {
            if (step == kWarmUp)
                times = {};
            threads.sync();
            sampling.measure({step, rank % samplers * samples, samples}, times);
        }
        const std::lock_guard lock(mutex);
        std::ranges::copy(times.draws, std::back_inserter(all.draws));
        std::ranges::copy(times.packs, std::back_inserter(all.packs));
        std::ranges::copy(times.loads, std::back_inserter(all.loads));
    });
    profile.extra["sampler_draw_seconds_per_place"] = median(std::move(all.draws));
    profile.extra["sampler_load_seconds_per_place"] = median(std::move(all.loads));
    profile.extra["store_seconds_per_row"] = all.packs.empty() ? 0 : median(std::move(all.packs));
    return {};
}

} // namespace planloom::profiler
