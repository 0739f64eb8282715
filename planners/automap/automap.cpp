// SPDX-License-Identifier: Apache-2.0
#include "planners/automap/automap.h"

#include "engine/compile/stage_model.h"
#include "engine/sharding/megatron.h"
#include "planners/automap/agent.h"
#include "planners/automap/pipeline_game.h"
#include "planners/automap/resume.h"
#include "planners/common/micro_batch.h"
#include "planners/oneflow/layout.h"
#include "planners/interface/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace planloom::planners::automap {
namespace {

constexpr std::size_t kMostStages = 8;

struct Settings {
    std::vector<std::string> families;
    std::size_t stages = 0;
    double radius = 0;
    double reserve = 0;
    bool linkage = true;
    Consistency consistency = Consistency::BreadthFirst;
    double communication = 0;
    AgentSettings agent;
    Memory memory;
};

Result<Settings> settingsFrom(const Options &options, const std::vector<OptionInfo> &known)
{
    OptionReader reader(options, known);
    Settings settings;
    settings.families = reader.choices("families", {"opp", "adp", "pp"});
    settings.agent.episodes = static_cast<std::size_t>(reader.integer("episodes", 1, 1'000'000));
    settings.agent.seed = static_cast<std::uint64_t>(reader.integer("seed", 0, 1'000'000'000));
    settings.stages = static_cast<std::size_t>(reader.integer("stages", 0, 1 << 20));
    settings.radius = reader.number("radius", 0, 1);
    settings.reserve = reader.number("memory_reserve", 0, 0.9);
    settings.communication = reader.number("communication", 0, 1e6);
    settings.linkage = reader.choice("linkage") == "on";
    settings.consistency = reader.choice("consistency") == "arc" ? Consistency::Arc : Consistency::BreadthFirst;
    if (!reader.status())
        return reader.status().error();
    const auto resume = options.find("resume");
    auto memory = memoryFrom(resume == options.end() ? "none" : resume->second);
    if (!memory)
        return memory.error();
    settings.memory = *std::move(memory);
    settings.agent.seed += settings.memory.episodes; // other games than before
    return settings;
}

struct Found {
    plan::Plan plan;
    simulate::Report report;
};

class Run {
public:
    Run(const Problem &problem, const Options &options, Settings settings, Progress &progress)
        : m_problem(problem),
          m_options(options),
          m_settings(std::move(settings)),
          m_progress(progress),
          m_memory(*problem.subject.costs, problem.optimizer, m_settings.reserve)
    {
        m_left.episodes = m_settings.memory.episodes + m_settings.agent.episodes;
        m_dapple.memoryReserve = m_settings.reserve;
        for (const std::int64_t perDevice : microBatchChoices(problem))
            m_scorers.emplace_back(m_problem, m_dapple, m_memory, perDevice);
    }

    Result<PlanReport> run()
    {
        const bool profile = graph::isLayerProfile(*m_problem.subject.graph);
        const std::vector<std::size_t> stages = stageCounts();
        m_games = (profile ? 0 : 2) + stages.size();
        if (profile && !wants("pp"))
            return unsupported(fmt::format(
                "model {} is a profile of layers without operators; only family pp can plan it, so set families=pp",
                m_problem.subject.graph->name()));
        if (!profile && wants("opp") && devices() > 1)
            if (const Status done = partition(); !done)
                return done.error();
        if (!profile && wants("adp") && devices() > 1)
            if (const Status done = batch(); !done)
                return done.error();
        for (const std::size_t count : wants("pp") ? stages : std::vector<std::size_t>{})
            if (const Status done = pipeline(count); !done)
                return done.error();
        m_progress.report(1, "done");
        return answer();
    }

private:
    [[nodiscard]] bool wants(const char *family) const
    {
        return std::find(m_settings.families.begin(), m_settings.families.end(), family) != m_settings.families.end();
    }
    [[nodiscard]] std::size_t devices() const { return m_problem.subject.cluster->devices().size(); }

    /// One stage, data parallel, belongs to the pipelines too.
    [[nodiscard]] std::vector<std::size_t> stageCounts() const
    {
        const std::size_t most = std::min(devices(), m_problem.subject.layers().size());
        if (m_settings.stages > 0)
            return {std::min(m_settings.stages, most)};
        std::vector<std::size_t> counts;
        for (std::size_t count = 1; count <= std::min(most, kMostStages); ++count)
            counts.push_back(count);
        return counts;
    }

    /// Plays a game to its end of episodes, and once more its best way, so that it stands at that end. False: none was
    /// found.
    bool play(const std::string &name, Environment &game)
    {
        if (m_stopped)
            return false;
        const double begin = static_cast<double>(m_played++) / static_cast<double>(m_games);
        const auto known = m_settings.memory.best.find(name);
        const Outcome outcome = learn(
            game, m_settings.agent, m_progress,
            known == m_settings.memory.best.end() ? std::vector<std::size_t>{} : known->second,
            [&](std::size_t episode, const Episode &best) {
                const double within = static_cast<double>(episode) / static_cast<double>(m_settings.agent.episodes);
                m_progress.report(begin + within / static_cast<double>(m_games),
                                  fmt::format("{}: episode {}, best {:.4g}{}", name, episode, best.score, soFar()));
            });
        m_stopped = outcome.stopped;
        if (outcome.episodes == 0 || outcome.best.score == kLost)
            return false;
        m_left.best[name] = outcome.best.actions;
        m_scores[name + "_score"] = outcome.best.score;
        game.reset();
        for (const std::size_t action : outcome.best.actions)
            game.act(action);
        return true;
    }

    [[nodiscard]] std::string soFar() const
    {
        if (m_found.empty())
            return {};
        return fmt::format("; plan so far {:.4g} ms", best()->report.iterationSeconds * 1e3);
    }

    [[nodiscard]] std::vector<Found>::const_iterator best() const
    {
        return std::min_element(m_found.begin(), m_found.end(), [](const Found &a, const Found &b) {
            return a.report.iterationSeconds < b.report.iterationSeconds;
        });
    }

    // --- operators

    Status partition()
    {
        const graph::Graph &graph = *m_problem.subject.graph;
        auto training =
            graph::differentiate(graph, OpId(0), OpId(static_cast<std::int32_t>(graph.ops().size())), {}, {});
        if (!training)
            return training.error();
        const RuleGraph rules = rulesOf(*training, static_cast<int>(devices()));
        PartitionGame game(rules, rules.trainable,
                           {m_settings.consistency, m_settings.linkage, m_settings.communication, false});
        m_scores["opp_dimensions"] = static_cast<double>(game.dimensions());
        if (!play("opp", game))
            return {};
        const sharding::Mesh mesh{{1, static_cast<int>(devices())}};
        const auto packed = sharding::megatronPins(graph, mesh); // which weights attention reads as several in one
        std::map<std::string, sharding::NdSbp> pins;
        for (const int variable : game.variables()) {
            const int split = splitOf(game.allowed()[static_cast<std::size_t>(variable)]);
            for (const std::string &name : rules.members[static_cast<std::size_t>(variable)]) {
                pins[name] = {sharding::broadcast(),
                              split == kReplicated ? sharding::broadcast() : sharding::split(split)};
                if (const auto other = packed.find(name); split != kReplicated && other != packed.end()
                    && other->second[1].axis == split && sharding::isSplit(other->second[1]))
                    pins[name] = other->second;
            }
        }
        return considerMesh(*training, mesh, pins, "from_opp");
    }

    // --- the batch

    Status batch()
    {
        const graph::Graph &graph = *m_problem.subject.graph;
        const auto replicas = static_cast<std::int64_t>(devices());
        const RuleGraph rules = batchRulesOf(graph, static_cast<int>(devices()), replicas);
        PartitionGame game(rules, rules.inputs, {m_settings.consistency, m_settings.linkage, 0, true});
        if (!play("adp", game) || m_problem.globalBatch < replicas)
            return {};
        for (const int input : game.variables()) {
            const graph::Tensor &tensor = graph.tensor(graph.find(rules.tensors[static_cast<std::size_t>(input)].name));
            const int split = splitOf(game.allowed()[static_cast<std::size_t>(input)]);
            const bool follows =
                split == kReplicated ? !tensor.shape.batched() : tensor.shape[static_cast<std::size_t>(split)].batch;
            if (!follows)
                return {}; // another dimension than the samples': not expressible by a plan's mesh
        }
        auto training =
            graph::differentiate(graph, OpId(0), OpId(static_cast<std::int32_t>(graph.ops().size())), {}, {});
        if (!training)
            return training.error();
        return considerMesh(*training, {{static_cast<int>(devices())}}, {}, "from_adp");
    }

    /// One stage over the mesh, with as few micro-batches as fit.
    Status considerMesh(const graph::TrainingGraph &training, const sharding::Mesh &mesh,
                        const std::map<std::string, sharding::NdSbp> &pins, const char *from)
    {
        const std::int64_t most = m_problem.globalBatch / mesh.sizes.front();
        std::int64_t count = m_problem.microBatch
            ? std::clamp<std::int64_t>(m_problem.globalBatch / (*m_problem.microBatch * mesh.sizes.front()), 1, most)
            : 1;
        for (bool last = false; !last; count = std::min(2 * count, most)) {
            last = m_problem.microBatch || count == most;
            plan::Plan plan = emptyPlan(m_problem, "automap", m_options);
            plan.microBatches = count;
            plan::Stage stage;
            stage.name = "all";
            stage.lastLayer = m_problem.subject.layers().size();
            for (const cluster::Device &device : m_problem.subject.cluster->devices())
                stage.devices.push_back(device.id);
            stage.mesh = mesh.sizes;
            for (const auto &[name, pin] : pins)
                stage.shardings[name] = sharding::toText(pin);
            stage.zero = stage.replicas() > 1 ? m_problem.zero : 0;
            oneflow::LayoutProblem layout{&training,
                                          m_problem.subject.costs.get(),
                                          stage.devices,
                                          mesh,
                                          static_cast<double>(m_problem.globalBatch) / static_cast<double>(count)
                                              / mesh.sizes.front(),
                                          static_cast<double>(count),
                                          m_problem.optimizer.rule.footprint()};
            const auto price = oneflow::priceOf(layout, pins);
            if (!price)
                return price.error();
            plan.stages = {std::move(stage)};
            plan.estimate = {{"iteration_seconds", price->seconds},
                             {"speedup_over_one_device",
                              price->seconds > 0 ? m_scorers.front().oneDeviceSeconds() / price->seconds : 1},
                             {"boxing_bytes", price->bytes},
                             {from, 1}};
            const auto fits = consider(std::move(plan));
            if (!fits)
                return fits.error();
            if (*fits)
                return {};
        }
        return {};
    }

    // --- pipelines

    Status pipeline(std::size_t stages)
    {
        if (m_cuts.empty())
            m_cuts = candidateCuts(m_problem.subject, m_settings.radius);
        PipelineGame game(m_scorers, m_cuts, stages);
        if (!play(fmt::format("pp{}", stages), game) || !game.best())
            return {};
        const dapple::Scored &scored = *game.best();
        plan::Plan plan = emptyPlan(m_problem, "automap", m_options);
        plan.microBatches = scored.microBatches;
        plan.schedule.kind =
            scored.warmup == dapple::Warmup::B ? plan::ScheduleKind::DappleB : plan::ScheduleKind::DappleA;
        for (std::size_t i = 0; i < scored.spans.size(); ++i) {
            plan::Stage stage;
            stage.name = fmt::format("stage{}", i);
            stage.firstLayer = scored.spans[i].first;
            stage.lastLayer = scored.spans[i].last;
            stage.devices = scored.spans[i].devices;
            stage.zero = stage.devices.size() > 1 ? m_problem.zero : 0;
            plan.stages.push_back(std::move(stage));
        }
        if (plan::warmupDepths(plan) != scored.depths)
            plan.schedule.warmup = scored.depths;
        plan.estimate = {{"iteration_seconds", scored.events},
                         {"speedup_over_one_device", scored.speedup},
                         {"from_pp", 1}};
        const auto fits = consider(std::move(plan));
        return fits ? Status() : Status(fits.error());
    }

    // --- the answer

    Result<bool> consider(plan::Plan plan)
    {
        auto simulation = simulate::simulatePlan(plan, m_problem.subject, {false, false});
        if (!simulation)
            return simulation.error();
        const bool fits = std::all_of(simulation->report.devices.begin(), simulation->report.devices.end(),
                                      [&](const simulate::DeviceReport &device) {
                                          return static_cast<double>(device.peakBytes)
                                              <= static_cast<double>(device.capacityBytes) * (1 - m_settings.reserve);
                                      });
        if (fits)
            m_found.push_back({std::move(plan), std::move(simulation->report)});
        else if (const MemoryLimit limit = limitOf(plan, m_problem.subject, simulation->report, m_settings.reserve);
                 !m_misfit || limit.factor() < m_misfit->factor())
            m_misfit = limit;
        return fits;
    }

    Result<PlanReport> answer()
    {
        if (m_found.empty() && m_stopped)
            return cancelled("stopped before a plan was found");
        if (m_found.empty() && m_misfit)
            return memoryBinds(*m_problem.subject.cluster, *m_misfit);
        const double samples = static_cast<double>(m_scorers.front().perDevice());
        if (const auto limit =
                m_found.empty() ? leastMemory(*m_problem.subject.costs, m_memory, samples, false) : std::nullopt;
            limit && limit->needed > limit->usable)
            return memoryBinds(*m_problem.subject.cluster, *limit);
        if (m_found.empty())
            return infeasible(fmt::format("no plan of the families searched can use {} layers, {} devices and a batch "
                                          "of {} within the devices' memory; allow more families, a larger "
                                          "batch, more devices or a smaller micro-batch",
                                          m_problem.subject.layers().size(), devices(), m_problem.globalBatch));
        std::stable_sort(m_found.begin(), m_found.end(), [](const Found &a, const Found &b) {
            return a.report.iterationSeconds < b.report.iterationSeconds;
        });
        std::vector<Candidate> others;
        for (std::size_t i = 1; i < m_found.size(); ++i)
            others.push_back({m_found[i].plan, m_found[i].report.iterationSeconds});
        plan::Plan plan = std::move(m_found.front().plan);
        plan.estimate.insert(m_scores.begin(), m_scores.end());
        plan.estimate["episodes"] = static_cast<double>(m_left.episodes);
        plan.planner.options["resume"] = toText(m_left);
        auto report = finish(std::move(plan), m_problem, std::move(others));
        if (report)
            report->complete = !m_stopped;
        return report;
    }

    const Problem &m_problem;
    const Options &m_options;
    Settings m_settings;
    Progress &m_progress;
    MemoryModel m_memory;
    dapple::Settings m_dapple;
    std::vector<dapple::Scorer> m_scorers; ///< one per size of a micro-batch
    std::vector<Cut> m_cuts;
    std::vector<Found> m_found; ///< plans that fit
    std::optional<MemoryLimit> m_misfit;
    plan::Estimate m_scores;
    Memory m_left;
    std::size_t m_games = 1;
    std::size_t m_played = 0;
    bool m_stopped = false;
};

} // namespace

std::vector<OptionInfo> AutoMapPlanner::options() const
{
    return {{"families", "opp,adp,pp", "families to explore: opp (operators), adp (the batch), pp (pipelines)",
             "opp,adp,pp"},
            {"episodes", "200", "games that each exploration plays"},
            {"seed", "1", "of the exploration; equal seeds give equal plans"},
            {"stages", "0", "pipeline stages; 0: one to eight", "0"},
            {"radius", "0.05",
             "how far from balanced a pipeline may be cut, as a share of the whole time; at least 8 layers"},
            {"communication", "0.05",
             "penalty of all-reduced bytes in the score of a partitioning, per byte of the parameters"},
            {"linkage", "on", "off: splits that contradict earlier decisions may be tried", "", {"on", "off"}},
            {"consistency",
             "breadth-first",
             "breadth-first, or arc: follow every choice that a decision narrows",
             "",
             {"breadth-first", "arc"}},
            {"resume", "none", "option resume of an earlier plan by automap: the search continues from there"},
            {"memory_reserve", "0.05", "share of a device's memory left to driver, libraries and fragmentation"}};
}

Result<PlanReport> AutoMapPlanner::plan(const Problem &problem, const Options &options, Progress &progress) const
{
    if (Status status = validate(problem); !status)
        return status.error();
    auto settings = settingsFrom(options, this->options());
    if (!settings)
        return settings.error();
    if (progress.stopped())
        return cancelled("stopped before a plan was found");
    return Run(problem, options, *std::move(settings), progress).run();
}

} // namespace planloom::planners::automap
