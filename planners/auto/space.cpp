// SPDX-License-Identifier: Apache-2.0
#include "planners/auto/space.h"

#include "engine/compile/stage_model.h"
#include "engine/plan/stage_settings.h"
#include "planners/common/balance.h"
#include "planners/common/micro_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace planloom::planners::automatic {
namespace {

std::size_t largestMachine(const cluster::Cluster &cluster)
{
    std::size_t most = 0;
    for (const cluster::Node &node : cluster.nodes())
        most = std::max(most, node.devices.size());
    return most;
}

plan::Stage stageOf(const Sketch &sketch, const Part &part, Scorer &scorer)
{
    const std::vector<DeviceId> &line = scorer.lines()[sketch.shape.line].devices;
    const cluster::Cluster &cluster = *scorer.problem().subject.cluster;
    plan::Stage stage;
    stage.firstLayer = part.first;
    stage.lastLayer = part.last;
    stage.devices.assign(line.begin() + static_cast<std::ptrdiff_t>(part.begin),
                         line.begin() + static_cast<std::ptrdiff_t>(part.end));
    stage.recompute = part.recompute;
    const int replicas = static_cast<int>(part.devices()) / sketch.shape.degree.tensor;
    stage.zero = replicas > 1 ? sketch.shape.zero : 0;
    if (sketch.shape.degree.tensor > 1) {
        stage.mesh = {replicas, sketch.shape.degree.tensor};
        stage.shardings = scorer.costs().pins(sketch.shape.degree);
    }
    const auto type = [&cluster](DeviceId device) { return cluster.device(device).type; };
    if (std::any_of(stage.devices.begin(), stage.devices.end(),
                    [&](DeviceId device) { return type(device) != type(stage.devices.front()); }))
        stage.replicaShares = scorer.shares(sketch.shape, part);
    return stage;
}

/// The counts next to @p count among those of the search.
std::vector<std::int64_t> countsBeside(std::int64_t count, std::vector<std::int64_t> counts)
{
    std::sort(counts.begin(), counts.end());
    std::vector<std::int64_t> beside;
    const auto above = std::upper_bound(counts.begin(), counts.end(), count);
    if (above != counts.end())
        beside.push_back(*above);
    const auto below = std::lower_bound(counts.begin(), counts.end(), count);
    if (below != counts.begin())
        beside.push_back(*std::prev(below));
    return beside;
}

/// True if every stage has its own devices, all equally many and in the same mesh.
bool isEvenPipeline(const plan::Plan &plan)
{
    std::set<DeviceId> seen;
    for (const plan::Stage &stage : plan.stages)
        for (const DeviceId device : stage.devices)
            if (!seen.insert(device).second)
                return false;
    return plan.stages.size() > 1
        && std::all_of(plan.stages.begin(), plan.stages.end(), [&plan](const plan::Stage &stage) {
               return stage.devices.size() == plan.stages.front().devices.size()
                   && stage.mesh == plan.stages.front().mesh && stage.replicaShares.empty();
           });
}

/// @p plan with @p chunks stages on each group of devices, taken in turn (Narayanan et al., 2021, §2.2), cut so that
/// the slowest is as fast as can be.
plan::Plan interleaved(const plan::Plan &plan, const Problem &problem, std::size_t chunks)
{
    const cost::CostModel &costs = *problem.subject.costs;
    const std::size_t groups = plan.stages.size();
    const double samples = static_cast<double>(plan.globalBatch) / static_cast<double>(plan.microBatches)
        / static_cast<double>(plan.stages.front().replicas());
    const auto cuts = balancedCuts(
        problem.subject.layers().size(), groups * chunks, [&](std::size_t index, std::size_t first, std::size_t last) {
            const std::size_t type = problem.subject.cluster->device(plan.stages[index % groups].devices.front()).type;
            return (costs.forward(first, last, samples, type) + costs.backward(first, last, samples, type)).value();
        });
    plan::Plan made = plan;
    made.stages.clear();
    for (std::size_t s = 0; s < groups * chunks; ++s) {
        plan::Stage stage = plan.stages[s % groups];
        stage.name = fmt::format("stage{}", s);
        stage.firstLayer = s == 0 ? 0 : cuts[s - 1];
        stage.lastLayer = s + 1 < groups * chunks ? cuts[s] : problem.subject.layers().size();
        made.stages.push_back(std::move(stage));
    }
    made.schedule = {};
    made.schedule.kind = plan::ScheduleKind::Interleaved1F1B;
    return made;
}

/// True if the stages of @p plan are what a sketch of @p line and @p degree lays out, each with a ZeRO level of its
/// own.
bool laidOutAs(const plan::Plan &plan, std::size_t line, const Degree &degree, const std::vector<int> &levels,
               Scorer &scorer)
{
    const std::vector<plan::Recompute> recomputations = scorer.costs().recomputations();
    const DeviceLine &devices = scorer.lines()[line];
    Sketch sketch{{line, degree, plan.microBatches, plan.schedule.kind, 0}, {}};
    std::size_t next = 0;
    for (const plan::Stage &stage : plan.stages) {
        const Part part{stage.firstLayer, stage.lastLayer, next, next + stage.devices.size(), stage.recompute};
        next = part.end;
        if (part.end > devices.devices.size() || part.end % devices.unit != 0
            || part.devices() % static_cast<std::size_t>(degree.tensor) != 0)
            return false;
        if (std::find(recomputations.begin(), recomputations.end(), stage.recompute) == recomputations.end())
            return false;
        if (stage.replicas() > 1 && std::find(levels.begin(), levels.end(), stage.zero) == levels.end())
            return false;
        sketch.shape.zero = stage.zero;
        const plan::Stage same = stageOf(sketch, part, scorer);
        if (same.devices != stage.devices || same.shardings != stage.shardings
            || plan::settingsOf(same) != plan::settingsOf(stage))
            return false;
    }
    return true;
}

/// True if all stages with replicas have the same ZeRO level.
bool hasOneLevel(const plan::Plan &plan)
{
    std::set<int> levels;
    for (const plan::Stage &stage : plan.stages)
        if (stage.replicas() > 1)
            levels.insert(stage.zero);
    return levels.size() <= 1;
}

} // namespace

bool inSpace(const plan::Plan &plan, const std::vector<plan::ScheduleKind> &kinds, bool oneLevel,
             const Settings &settings, Scorer &scorer)
{
    const Problem &problem = scorer.problem();
    const std::vector<std::int64_t> counts = microBatchCounts(problem);
    if (std::find(counts.begin(), counts.end(), plan.microBatches) == counts.end()
        || std::find(kinds.begin(), kinds.end(), plan.schedule.kind) == kinds.end()
        || plan.schedule.kind == plan::ScheduleKind::Interleaved1F1B || !plan.schedule.warmup.empty()
        || plan.bucketBytes != plan::Plan::kBucketBytes || (oneLevel && !hasOneLevel(plan))
        || (settings.mostStages > 0 && plan.stages.size() > settings.mostStages))
        return false;
    const std::vector<int> levels = zeroLevels(problem, settings);
    const std::vector<Degree> all = degrees(problem, scorer.costs(), settings.mostTensor);
    for (std::size_t line = 0; line < scorer.lines().size(); ++line)
        if (std::any_of(all.begin(), all.end(),
                        [&](const Degree &degree) { return laidOutAs(plan, line, degree, levels, scorer); }))
            return true;
    return false;
}

std::vector<std::string> describeSpace(const std::vector<plan::ScheduleKind> &kinds, bool oneLevel,
                                       const Settings &settings, Scorer &scorer)
{
    const Problem &problem = scorer.problem();
    const auto listed = [](const auto &values, const auto &text) {
        std::vector<std::string> words;
        for (const auto &value : values)
            words.push_back(text(value));
        return fmt::format("{}", fmt::join(words, ", "));
    };
    const auto number = [](std::int64_t value) { return std::to_string(value); };
    std::vector<std::int64_t> counts = microBatchCounts(problem);
    std::reverse(counts.begin(), counts.end());
    const std::vector<int> levels = zeroLevels(problem, settings);
    const std::size_t most = settings.mostStages > 0 ? settings.mostStages : scorer.costs().layers();
    std::vector<std::string> space{
        fmt::format("micro-batches: {}", listed(counts, number)),
        fmt::format("stages: 1 to {}, runs of layers on runs of devices in the order {}{}; devices behind the last "
                    "may be idle",
                    most, listed(scorer.lines(), [](const DeviceLine &line) { return line.name; }),
                    scorer.lines().front().unit > 1 ? fmt::format(", in units of {}", scorer.lines().front().unit)
                                                    : std::string()),
        fmt::format("devices that share a replica's tensors: {}, equal for all stages",
                    listed(degrees(problem, scorer.costs(), settings.mostTensor),
                           [](const Degree &degree) {
                               return fmt::format("{}{}", degree.tensor, degree.sequence ? " with sequences" : "");
                           })),
        fmt::format("order of passes: {}, with its own warm-up",
                    listed(kinds, [](plan::ScheduleKind kind) { return std::string(plan::name(kind)); })),
        fmt::format("recomputation, for each stage: {}",
                    listed(scorer.costs().recomputations(),
                           [](plan::Recompute recompute) { return std::string(plan::name(recompute)); })),
        fmt::format("ZeRO, {}: {}", oneLevel ? "one level for all stages" : "for each stage", listed(levels, number)),
        fmt::format("buckets of {} MiB; replicas of a stage share a micro-batch equally, on several kinds of devices "
                    "in proportion to their speed",
                    plan::Plan::kBucketBytes >> 20),
        "not in it: interleaved stages, other numbers of micro-batches, buckets, shares or warm-ups, memory policies",
    };
    if (!settings.keep.empty())
        space.push_back(fmt::format("kept: {}", textOf(settings.keep)));
    return space;
}

std::vector<plan::ScheduleKind> Settings::cutSchedules() const
{
    std::vector<plan::ScheduleKind> kinds = schedules;
    std::erase(kinds, plan::ScheduleKind::ZeroBubbleH1);
    return kinds;
}

std::vector<std::int64_t> microBatchCounts(const Problem &problem)
{
    std::set<std::int64_t, std::greater<>> counts;
    const auto devices = static_cast<std::int64_t>(problem.subject.cluster->devices().size());
    for (const std::int64_t samples : microBatchChoices(problem))
        for (std::int64_t replicas = 1; replicas <= devices; replicas *= 2)
            counts.insert(std::max<std::int64_t>(1, problem.globalBatch / (samples * replicas)));
    return {counts.begin(), counts.end()};
}

std::vector<Degree> degrees(const Problem &problem, StageCosts &costs, int most)
{
    std::vector<Degree> found{{1, false}};
    const std::size_t machine = largestMachine(*problem.subject.cluster);
    const int limit = most > 0 ? std::min(most, static_cast<int>(machine)) : static_cast<int>(machine);
    if (costs.proportional())
        return found;
    for (int tensor = 2; tensor <= limit; tensor *= 2)
        for (const bool sequence : {false, true})
            if (const Degree degree{tensor, sequence}; !costs.pins(degree).empty())
                found.push_back(degree);
    return found;
}

std::vector<int> zeroLevels(const Problem &problem, const Settings &settings)
{
    const int most = graph::isLayerProfile(*problem.subject.graph) ? 1 : 3;
    std::vector<int> levels{problem.zero};
    if (settings.zero && problem.subject.cluster->devices().size() > 1)
        for (int level = problem.zero + 1; level <= most; ++level)
            levels.push_back(level);
    return levels;
}

plan::Plan planOf(const Sketch &sketch, Scorer &scorer, const Options &options)
{
    plan::Plan plan = emptyPlan(scorer.problem(), "auto", options);
    plan.microBatches = sketch.shape.microBatches;
    plan.schedule.kind = sketch.shape.schedule;
    for (const Part &part : sketch.parts) {
        plan.stages.push_back(stageOf(sketch, part, scorer));
        plan.stages.back().name = fmt::format("stage{}", plan.stages.size() - 1);
    }
    return plan;
}

std::vector<plan::Plan> variants(const plan::Plan &plan, const Problem &problem, const Settings &settings)
{
    std::vector<plan::Plan> all;
    const auto with = [&](const auto &change) {
        plan::Plan changed = plan;
        change(changed);
        all.push_back(std::move(changed));
    };
    for (const plan::ScheduleKind kind : settings.schedules)
        if (plan.stages.size() > 1 && plan.schedule.kind != plan::ScheduleKind::Interleaved1F1B
            && (kind != plan.schedule.kind || !plan.schedule.warmup.empty()))
            with([kind](plan::Plan &p) {
                p.schedule.kind = kind;
                p.schedule.warmup.clear();
            });
    for (const std::int64_t count : countsBeside(plan.microBatches, microBatchCounts(problem)))
        with([count](plan::Plan &p) {
            p.microBatches = count;
            p.schedule.warmup.clear();
        });
    constexpr std::size_t kMostChunks = 4;
    if (settings.interleave && isEvenPipeline(plan))
        for (std::size_t chunks = 2;
             chunks <= kMostChunks && chunks * plan.stages.size() <= problem.subject.layers().size(); ++chunks)
            all.push_back(interleaved(plan, problem, chunks));
    for (const int level : zeroLevels(problem, settings))
        with([level](plan::Plan &p) {
            for (plan::Stage &stage : p.stages)
                stage.zero = stage.replicas() > 1 ? level : 0;
        });
    return all;
}

std::vector<plan::Plan> neighbours(const plan::Plan &plan, const Problem &problem, const Settings &)
{
    std::vector<plan::Plan> all;
    const auto with = [&](const auto &change) {
        plan::Plan changed = plan;
        change(changed);
        all.push_back(std::move(changed));
    };
    for (std::size_t s = 0; s + 1 < plan.stages.size(); ++s) {
        if (plan.stages[s].lastLayer - plan.stages[s].firstLayer > 1)
            with([s](plan::Plan &p) { p.stages[s + 1].firstLayer = --p.stages[s].lastLayer; });
        if (plan.stages[s + 1].lastLayer - plan.stages[s + 1].firstLayer > 1)
            with([s](plan::Plan &p) { p.stages[s + 1].firstLayer = ++p.stages[s].lastLayer; });
    }
    const bool profile = graph::isLayerProfile(*problem.subject.graph);
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
        for (const auto kind :
             {plan::Recompute::None, plan::Recompute::Selective, plan::Recompute::Layers, plan::Recompute::Full})
            if (kind != plan.stages[s].recompute
                && (!profile || kind == plan::Recompute::None || kind == plan::Recompute::Full))
                with([s, kind](plan::Plan &p) { p.stages[s].recompute = kind; });
    return all;
}

} // namespace planloom::planners::automatic
