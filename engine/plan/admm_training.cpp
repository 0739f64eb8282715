// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/admm_training.h"

#include "engine/admm/pattern.h"
#include "engine/admm/training_graph.h"
#include "engine/plan/plan.h"
#include "engine/plan/validate.h"
#include "engine/update/replacement.h"

#include <fmt/format.h>

namespace planloom::plan {
namespace {

/// Of systems of @p columns unknowns, the last without ridge, from @p rows samples.
Status checkFactor(const admm::Settings &settings, const char *sums, std::int64_t columns, std::int64_t rows)
{
    if (settings.ridge > 0 || rows >= columns)
        return {};
    return badInput(fmt::format("with ridge 0 the sums {} of {} rows over {} columns have no Cholesky factor; give a "
                                "ridge above 0, or train on more samples",
                                sums, rows, columns));
}

Status checkAdmmStages(const Plan &plan, std::string &field)
{
    field = "micro_batches";
    if (plan.microBatches != 1)
        return badInput(
            fmt::format("training by ADMM takes all samples at once, not {} micro-batches; use 1", plan.microBatches));
    field = "stages";
    const Stage &stage = plan.stages.front();
    if (plan.stages.size() != 1 || stage.mesh.size() > 2)
        return unsupported("training by ADMM splits samples over workers, not the model; use one stage of replicas");
    if (static_cast<std::int64_t>(stage.shards()) != plan.admm->timeRanges)
        return badInput(fmt::format("the stage's mesh has {} devices for each worker, and training has time_ranges {}; "
                                    "make them equal",
                                    stage.shards(), plan.admm->timeRanges));
    if (stage.zero != 0 || stage.recompute != Recompute::None || stage.memory.limits())
        return unsupported("training by ADMM goes without ZeRO, recomputation and memory policies; leave them out");
    field = "global_batch";
    if (plan.globalBatch < static_cast<std::int64_t>(stage.replicas()))
        return badInput(fmt::format("{} samples leave some of {} workers without one; use fewer workers",
                                    plan.globalBatch, stage.replicas()));
    field = "exchange";
    if (plan.exchange.policy != ExchangePolicy::AllReduce || !plan.exchange.groups.empty())
        return unsupported("training by ADMM sums up over workers by all-reduce; use that exchange");
    field = "precision";
    if (plan.precision != Precision::Float32)
        return unsupported("training by ADMM needs float32, as its sums square the data's condition; use fp32");
    return {};
}

Status checkAdmmSettings(const Plan &plan, const Subject &subject)
{
    const admm::Settings &settings = *plan.admm;
    const auto workers = static_cast<std::int64_t>(plan.stages.front().replicas());
    const auto pattern = admm::findPattern(*subject.graph);
    if (!pattern)
        return pattern.error();
    const std::int64_t devices = static_cast<std::int64_t>(subject.cluster->devices().size()) / workers;
    if (const Status good = settings.check(); !good)
        return good.error();
    if (const Status equal = admm::checkRanges(settings, pattern->steps, devices); !equal)
        return equal.error();
    if (const auto made = admm::trainingGraph(*subject.graph, settings, workers); !made)
        return made.error();
    const std::int64_t samples = plan.globalBatch;
    if (const Status in = checkFactor(settings, "in", pattern->inputs + pattern->hidden + 1, samples * pattern->steps);
        !in)
        return in;
    return checkFactor(settings, "out", pattern->hidden + 1, samples);
}

} // namespace

const char *name(admm::Duals duals) { return duals == admm::Duals::All ? "all" : "last"; }
const char *name(admm::Order order) { return order == admm::Order::Interleaved ? "interleaved" : "split"; }
const char *name(admm::Subproblems subproblems)
{
    constexpr const char *kNames[] = {"exact", "linearised", "released"};
    return kNames[static_cast<std::size_t>(subproblems)];
}
const char *name(admm::Parallel parallel)
{
    return parallel == admm::Parallel::Synchronous ? "synchronous" : "asynchronous";
}

Optimizer admmOptimizer()
{
    Optimizer optimizer;
    optimizer.rule = update::ConfiguredRule(update::replacement());
    optimizer.learningRate = update::replacement().learningRate;
    optimizer.weightDecay = 0;
    return optimizer;
}

std::optional<Plan> continuationOf(const Plan &plan)
{
    if (!plan.then)
        return std::nullopt;
    Plan later = plan;
    later.admm.reset();
    later.then.reset();
    later.optimizer = plan.then->optimizer;
    return later;
}

namespace {

Status checkContinuation(const Plan &plan, const Subject &subject)
{
    if (!plan.then)
        return {};
    if (plan.then->after < 1)
        return badInput(
            fmt::format("training goes on by gradients after {} iterations; after 1 at least", plan.then->after));
    if (plan.admm->parallel != admm::Parallel::Synchronous || plan.admm->timeRanges > 1)
        return unsupported("training goes on by gradients behind synchronous iterations without ranges of steps alone; "
                           "choose parallel \"synchronous\" and time_ranges 1, or leave out \"then\"");
    return validate(*continuationOf(plan), subject);
}

} // namespace

Status validateAdmm(const Plan &plan, const Subject &subject, std::string &field)
{
    field = "optimizer";
    const bool replaces = &plan.optimizer.rule.rule() == &update::replacement();
    if (!plan.admm)
        return replaces ? Status(badInput("the plan has no training for its update rule; choose an optimizer"))
                        : Status();
    if (!replaces)
        return badInput("training by ADMM has no optimizer; leave \"optimizer\" out, or "
                        "write it into training.then, with the iterations before it as \"after\"");
    if (plan.job) {
        field = "job";
        return unsupported("training by ADMM keeps variables of its samples and cannot take sampled ones; leave out "
                           "\"job\", or \"training\"");
    }
    if (const Status stages = checkAdmmStages(plan, field); !stages)
        return stages;
    field = "training";
    if (const Status settings = checkAdmmSettings(plan, subject); !settings)
        return settings;
    field = "training.then";
    return checkContinuation(plan, subject);
}

std::string textOf(const admm::Settings &settings)
{
    std::string text = fmt::format("admm (mu {}, gamma {}, rho {}, ridge {}, duals {}, order {}, {} and {} inner steps",
                                   settings.mu, settings.gamma, settings.rho, settings.ridge, name(settings.duals),
                                   name(settings.order), settings.newtonSteps, settings.tanhSteps);
    if (settings.subproblems != admm::Subproblems::Exact)
        text += fmt::format(", {}", name(settings.subproblems));
    if (settings.shards > 1)
        text += fmt::format(", {} shards of samples", settings.shards);
    if (settings.timeRanges > 1)
        text += fmt::format(", {} ranges of steps", settings.timeRanges);
    if (settings.parallel == admm::Parallel::Asynchronous)
        text += fmt::format(", asynchronous: barrier {}, delay {}, proximal {}", settings.barrier, settings.delay,
                            settings.proximal);
    return text + ")";
}

} // namespace planloom::plan
