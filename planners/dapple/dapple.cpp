// SPDX-License-Identifier: Apache-2.0
#include "planners/dapple/dapple.h"

#include "engine/compile/stage_model.h"
#include "planners/common/micro_batch.h"
#include "planners/dapple/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace planloom::planners::dapple {
namespace {

constexpr std::size_t kAlternatives = 10;

using FamilySearch = void (*)(Search &);

FamilySearch searchOf(Family family)
{
    switch (family) {
    case Family::DataParallel: return searchDataParallel;
    case Family::TwoStage: return searchTwoStage;
    case Family::Straight: return searchStraight;
    case Family::Replicated: return searchReplicated;
    case Family::Free: return searchFree;
    }
    return searchDataParallel;
}

plan::ScheduleKind kindOf(const Scored &scored, const Settings &settings)
{
    if (settings.order == Order::GPipe)
        return plan::ScheduleKind::GPipe;
    if (settings.order == Order::OneF1B)
        return plan::ScheduleKind::OneF1B;
    return scored.warmup == Warmup::B ? plan::ScheduleKind::DappleB : plan::ScheduleKind::DappleA;
}

plan::Estimate estimateOf(const Scored &scored, Scorer &scorer)
{
    const Latency formula = formulaLatency(scored.chain);
    const double shipped = shippedSeconds(scorer.shippedInput(scored.spans));
    plan::Estimate estimate{{"iteration_seconds", scored.events},
                            {"speedup_over_one_device", scored.speedup},
                            {"micro_batch_per_device", static_cast<double>(scored.perDevice)},
                            {"communication_ratio", communicationRatio(scored.chain)},
                            {"formula_seconds", formula.total()},
                            {"formula_pivot", static_cast<double>(formula.pivot)},
                            {"formula_warmup_seconds", formula.warmup},
                            {"formula_steady_seconds", formula.steady},
                            {"formula_ending_seconds", formula.ending}};
    if (std::isfinite(shipped))
        estimate["shipped_seconds"] = shipped;
    return estimate;
}

/// A search over one problem: its settings read, its memory measured up, its candidates collected.
class Run {
public:
    Run(const Problem &problem, const Options &options, Settings settings, Progress &progress)
        : m_problem(problem),
          m_options(options),
          m_settings(std::move(settings)),
          m_progress(progress),
          m_memory(*problem.subject.costs, problem.optimizer, m_settings.memoryReserve)
    {
        for (const std::int64_t perDevice : microBatchChoices(problem))
            m_scorers.emplace_back(m_problem, m_settings, m_memory, perDevice);
    }

    Result<PlanReport> run()
    {
        Pool pool(m_settings.candidates, m_scorers.front().oneDeviceSeconds());
        const double share = 1.0 / static_cast<double>(m_scorers.size() * m_settings.families.size());
        double begin = 0;
        for (Scorer &scorer : m_scorers) {
            for (const Family family : m_settings.families) {
                Search search{m_settings, scorer, pool, m_progress, begin, begin + share, m_stopped};
                searchOf(family)(search);
                m_stopped = search.stopped;
                begin += share;
            }
        }
        if (pool.plans().empty())
            return m_stopped ? cancelled("stopped before a plan was found") : tooTight();
        return choose(pool.plans());
    }

private:
    [[nodiscard]] bool ranksByProgram() const
    {
        if (m_settings.rescore == Rescore::Auto)
            return !graph::isLayerProfile(*m_problem.subject.graph);
        return m_settings.rescore == Rescore::Program;
    }

    [[nodiscard]] plan::Plan planOf(const Scored &scored)
    {
        plan::Plan plan = emptyPlan(m_problem, "dapple", m_options);
        plan.microBatches = scored.microBatches;
        plan.schedule.kind = kindOf(scored, m_settings);
        for (std::size_t i = 0; i < scored.spans.size(); ++i) {
            plan::Stage stage;
            stage.name = fmt::format("stage{}", i);
            stage.firstLayer = scored.spans[i].first;
            stage.lastLayer = scored.spans[i].last;
            stage.devices = scored.spans[i].devices;
            stage.recompute = scored.recompute[i] ? plan::Recompute::Full : plan::Recompute::None;
            stage.zero = stage.devices.size() > 1 ? m_problem.zero : 0;
            plan.stages.push_back(std::move(stage));
        }
        if (plan::warmupDepths(plan) != scored.depths)
            plan.schedule.warmup = scored.depths;
        plan.estimate = estimateOf(scored, *scorerOf(scored));
        plan.estimate["speedup_over_one_device"] = scored.speedup;
        return plan;
    }

    [[nodiscard]] Scorer *scorerOf(const Scored &scored)
    {
        const auto at = std::find_if(m_scorers.begin(), m_scorers.end(),
                                     [&](const Scorer &scorer) { return scorer.perDevice() == scored.perDevice; });
        return &*at;
    }

    /// Re-scores the candidates, and takes the first whose compiled program fits.
    Result<PlanReport> choose(std::vector<Scored> candidates)
    {
        if (m_settings.rescore != Rescore::None)
            std::stable_sort(candidates.begin(), candidates.end(),
                             [](const Scored &a, const Scored &b) { return a.events < b.events; });
        std::vector<PlanReport> reports;
        std::optional<Error> refused;
        std::optional<PlanReport> misfit;
        const std::size_t enough = ranksByProgram() ? candidates.size() : 1 + kAlternatives;
        for (std::size_t i = 0; i < candidates.size() && reports.size() < enough; ++i) {
            m_progress.report(1, fmt::format("simulating plan {} of {}", i + 1, candidates.size()));
            m_stopped = m_stopped || m_progress.stopped();
            if (m_stopped && !reports.empty())
                break;
            Result<PlanReport> report = fitted(candidates[i]);
            if (!report && !refused)
                refused = report.error();
            if (report && report->predicted.fits)
                reports.push_back(*std::move(report));
            else if (report && !misfit)
                misfit = *std::move(report);
        }
        if (reports.empty())
            return misfit
                ? memoryBinds(*m_problem.subject.cluster, limitOf(misfit->plan, m_problem.subject, misfit->predicted))
                : *refused;
        return rank(std::move(reports));
    }

    /// Compiles and simulates a candidate. The compiler knows its memory to the byte: where the planner's bound was too
    /// low, stages that do not fit keep fewer micro-batches in flight.
    Result<PlanReport> fitted(Scored scored)
    {
        Result<PlanReport> report = finish(planOf(scored), m_problem);
        while (report && !report->predicted.fits && m_settings.order != Order::GPipe) {
            std::vector<int> most = scored.depths;
            std::size_t rank = 0;
            for (std::size_t i = 0; i < scored.spans.size(); ++i) {
                bool over = false;
                for (std::size_t replica = 0; replica < scored.spans[i].devices.size(); ++replica, ++rank)
                    over = over
                        || report->predicted.devices[rank].peakBytes > report->predicted.devices[rank].capacityBytes;
                most[i] = std::max(1, most[i] - (over ? 1 : 0));
            }
            if (most == scored.depths)
                break;
            scored = scorerOf(scored)->capped(std::move(scored), most);
            report = finish(planOf(scored), m_problem);
        }
        return report;
    }

    Result<PlanReport> rank(std::vector<PlanReport> reports)
    {
        if (ranksByProgram())
            std::stable_sort(reports.begin(), reports.end(), [](const PlanReport &a, const PlanReport &b) {
                return a.predicted.iterationSeconds < b.predicted.iterationSeconds;
            });
        PlanReport best = std::move(reports.front());
        for (std::size_t i = 1; i < std::min(reports.size(), 1 + kAlternatives); ++i)
            best.alternatives.push_back({std::move(reports[i].plan), reports[i].predicted.iterationSeconds});
        best.complete = !m_stopped;
        m_progress.report(1, "done");
        return best;
    }

    /// Why there is no plan at all: fewer samples than replicas, or memory.
    [[nodiscard]] Error tooTight() const
    {
        const Shortage *least = &m_scorers.front().shortage();
        for (const Scorer &scorer : m_scorers)
            if (scorer.shortage().missing < least->missing)
                least = &scorer.shortage();
        const cluster::Cluster &cluster = *m_problem.subject.cluster;
        if (!std::isfinite(least->missing))
            return infeasible(fmt::format("no plan of the families searched can use {} layers, {} devices and a batch "
                                          "of {}{}; allow more families or a larger batch{}",
                                          m_problem.subject.layers().size(), cluster.devices().size(),
                                          m_problem.globalBatch,
                                          m_settings.keep.empty() ? "" : " and keep " + textOf(m_settings.keep),
                                          m_settings.keep.empty() ? "" : ", or keep less"));
        const MemoryLimit limit{fmt::format("layers {} to {}, a stage of {}", least->span.first, least->span.last,
                                            least->stages),
                                least->span.devices.front(), least->needed, least->usable};
        return memoryBinds(cluster, limit,
                           fmt::format(" ({} of weights, gradients and optimizer state)",
                                       format(Bytes(static_cast<std::int64_t>(least->persistent)))));
    }

    const Problem &m_problem;
    const Options &m_options;
    Settings m_settings;
    Progress &m_progress;
    MemoryModel m_memory;
    std::vector<Scorer> m_scorers; ///< one per micro-batch size that is tried
    bool m_stopped = false;
};

} // namespace

std::string DapplePlanner::about() const
{
    return "replicated pipeline stages with early backward scheduling, placed for the shortest synchronous iteration "
           "(DAPPLE, PPoPP 2021)";
}

std::vector<OptionInfo> DapplePlanner::options() const { return optionList(); }

Result<PlanReport> DapplePlanner::plan(const Problem &problem, const Options &options, Progress &progress) const
{
    if (Status status = validate(problem); !status)
        return status.error();
    Result<Settings> settings = readSettings(options, problem.subject.layers().size());
    if (!settings)
        return settings.error();
    return Run(problem, options, *std::move(settings), progress).run();
}

} // namespace planloom::planners::dapple
