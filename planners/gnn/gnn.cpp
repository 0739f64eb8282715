// SPDX-License-Identifier: Apache-2.0
#include "planners/gnn/gnn.h"

#include "engine/gnn/volumes.h"
#include "planners/gnn/exhaustive.h"
#include "planners/gnn/explore.h"
#include "planners/gnn/initial.h"
#include "planners/interface/options.h"

#include <fmt/format.h>

#include <algorithm>

namespace planloom::planners::gnn {
namespace {

using planloom::gnn::RoleKind;

constexpr std::int64_t kMostSearched = 1 << 20;

struct GnnSettings {
    std::int64_t trainers = 0;
    std::int64_t samplers = 1;
    std::int64_t prefetch = 2;
    std::int64_t slots = 0;
    std::int64_t iterations = 8;
    std::int64_t seed = 1;
    double sampleSeconds = 0;
    std::string search;
    std::int64_t proposals = 0;
    TransferPolicy transfers = TransferPolicy::Degree;
};

Result<GnnSettings> readSettings(const Options &options, const std::vector<OptionInfo> &known)
{
    OptionReader reader(options, known);
    GnnSettings settings;
    settings.trainers = reader.integer("trainers", 0, 1 << 16);
    settings.samplers = reader.integer("samplers", 1, 1 << 10);
    settings.prefetch = reader.integer("prefetch", 1, 1 << 16);
    settings.slots = reader.integer("slots", 0, 1 << 16);
    settings.iterations = reader.integer("iterations", 2, 1 << 12);
    settings.seed = reader.integer("seed", 0, std::int64_t{1} << 53);
    settings.sampleSeconds = reader.number("sample_seconds", 0, 1e6);
    settings.search = reader.choice("search", {"explore", "initial", "exhaustive"});
    settings.proposals = reader.integer("proposals", 1, 1 << 24);
    std::vector<std::string> policies;
    for (const TransferPolicy policy : planloom::gnn::kTransferPolicies)
        policies.emplace_back(planloom::gnn::name(policy));
    const auto policy = planloom::gnn::transferPolicyFromName(reader.choice("transfers", policies));
    if (!reader.status())
        return reader.status().error();
    settings.transfers = policy ? *policy : settings.transfers;
    return settings;
}

std::int64_t elementsOf(const graph::Graph &graph, const char *input)
{
    for (const graph::Tensor &tensor : graph.tensors()) {
        if (tensor.role == graph::TensorRole::Input && tensor.name == input)
            return tensor.shape.elements(1);
    }
    return 0;
}

/// The fan-out that the model's inputs have.
Result<planloom::gnn::Fanout> fanoutOfModel(const Problem &problem)
{
    const graph::Graph &graph = *problem.subject.graph;
    const std::int64_t x = elementsOf(graph, "x"), x1 = elementsOf(graph, "x1"), x2 = elementsOf(graph, "x2");
    if (x == 0 || x1 == 0 || x2 == 0 || x1 % x != 0 || x2 % x1 != 0)
        return badInput("the model takes no trees: inputs x, x1 and x2 of a node, of its neighbours and of theirs; "
                        "plan zoo:graphsage");
    if (x != problem.sampledGraph->width)
        return badInput(fmt::format("the graph has {} features a node, and the model wants {}; plan zoo:graphsage (64) "
                                    "or zoo:graphsage-blocks (16), or make the graph with --width {}",
                                    problem.sampledGraph->width, x, x));
    return planloom::gnn::Fanout{x1 / x, x2 / x1};
}

/// Trainer @p t is on the t-th device until it is placed.
plan::Plan draftOf(const Problem &problem, const Options &options, const GnnSettings &settings,
                   const planloom::gnn::Fanout &fanout)
{
    plan::Plan plan = emptyPlan(problem, "gnn", options);
    plan.microBatches = 1;
    plan::Stage stage;
    stage.name = "trainers";
    stage.lastLayer = problem.subject.layers().size();
    for (std::int64_t t = 0; t < settings.trainers; ++t)
        stage.devices.push_back(problem.subject.cluster->devices()[static_cast<std::size_t>(t)].id);
    plan.stages = {std::move(stage)};
    plan.schedule.kind = plan::ScheduleKind::OneF1B;
    const planloom::gnn::GraphData &graph = *problem.sampledGraph;
    plan.job.emplace();
    plan.job->graph = {problem.sampledGraphHash, graph.nodes(), graph.edges(), graph.width, graph.parts()};
    plan.job->fanout = fanout;
    plan.job->seed = static_cast<std::uint64_t>(settings.seed);
    plan.job->prefetch = static_cast<std::int32_t>(settings.prefetch);
    plan.job->transfers = settings.transfers;
    plan.job->sampleSeconds = settings.sampleSeconds;
    const auto nodes = problem.subject.cluster->nodes();
    for (std::int32_t part = 0; part < graph.parts(); ++part)
        plan.roles.push_back({fmt::format("g{}", part), RoleKind::GraphStore,
                              nodes[static_cast<std::size_t>(part) % nodes.size()].name, part, -1});
    for (std::int64_t s = 0; s < settings.trainers * settings.samplers; ++s)
        plan.roles.push_back({fmt::format("s{}", s), RoleKind::Sampler, nodes.front().name, -1,
                              static_cast<std::int32_t>(s / settings.samplers)});
    return plan;
}

Result<planloom::gnn::Volumes> volumesFor(const Problem &problem, const plan::Plan &plan, const GnnSettings &settings)
{
    const std::int64_t samplers = settings.trainers * settings.samplers;
    planloom::gnn::SampleOptions sampling;
    sampling.fanout = plan.job->fanout;
    sampling.batch = problem.globalBatch / samplers;
    sampling.seed = plan.job->seed;
    const std::vector<std::int32_t> homes(static_cast<std::size_t>(samplers), 0); // seeds are of the whole graph
    auto volumes = planloom::gnn::sampledVolumes(*problem.sampledGraph, homes,
                                                 static_cast<std::int32_t>(settings.iterations), sampling);
    if (!volumes)
        return volumes;
    for (double &bytes : volumes->batches)
        bytes += 8.0 * static_cast<double>(sampling.batch); // labels
    return volumes;
}

/// The job with what roles take of machines: a trainer a device, others a slot, where these are limited.
Job withDemands(Job job, std::int64_t slots)
{
    job.resources.emplace_back("role-slots");
    for (planloom::gnn::Machine &machine : job.machines)
        machine.capacity.push_back(slots > 0 ? static_cast<double>(slots) : 1e9);
    for (planloom::gnn::Role &role : job.roles)
        role.demand.push_back(role.kind == RoleKind::Trainer ? 0 : 1);
    return job;
}

struct Placed {
    Placement machineOf;
    bool complete = true;
};

Result<Placed> search(const Job &job, const GnnSettings &settings, Progress &progress)
{
    auto first = initialPlacement(job, progress);
    if (!first)
        return first.error();
    if (settings.search == "initial")
        return Placed{std::move(first->machineOf)};
    if (settings.search == "exhaustive") {
        auto all = exhaustivePlacement(job, settings.transfers, kMostSearched, progress);
        return all ? Result<Placed>(Placed{std::move(all->best)}) : all.error();
    }
    ExploreOptions how;
    how.proposals = settings.proposals;
    how.seed = static_cast<std::uint64_t>(settings.seed);
    how.policy = settings.transfers;
    Exploration found = explore(job, first->machineOf, how, progress);
    return Placed{std::move(found.machineOf), !found.cancelled};
}

/// Roles go to their machines, trainers to the next free device there.
void apply(const Placement &machineOf, const cluster::Cluster &cluster, plan::Plan &plan)
{
    std::vector<std::size_t> used(cluster.nodes().size());
    const auto nodeAt = [&](std::size_t role) { return static_cast<std::size_t>(machineOf[role]); };
    for (std::size_t i = 0; i < plan.roles.size(); ++i)
        plan.roles[i].machine = cluster.nodes()[nodeAt(i)].name;
    std::vector<DeviceId> &devices = plan.stages.front().devices;
    for (std::size_t t = 0; t < devices.size(); ++t) {
        const std::size_t node = nodeAt(plan.roles.size() + t);
        devices[t] = cluster.nodes()[node].devices[used[node]++];
    }
}

Status checkCounts(const Problem &problem, GnnSettings &settings)
{
    const auto devices = static_cast<std::int64_t>(problem.subject.cluster->devices().size());
    if (settings.trainers == 0)
        settings.trainers = devices;
    if (settings.trainers > devices)
        return infeasible(fmt::format("{} trainers do not fit the {} devices of cluster {}; use fewer",
                                      settings.trainers, devices, problem.subject.cluster->name()));
    const std::int64_t shares = settings.trainers * settings.samplers;
    if (problem.globalBatch % shares != 0)
        return badInput(fmt::format("a batch of {} cannot be shared out evenly by {} trainers with {} samplers each; "
                                    "use a multiple of {}",
                                    problem.globalBatch, settings.trainers, settings.samplers, shares));
    return {};
}

} // namespace

std::vector<OptionInfo> GnnPlanner::options() const
{
    return {{"trainers", "0", "replicas of the model; 0: one on each device"},
            {"samplers", "1", "samplers of each trainer"},
            {"prefetch", "2", "mini-batches that a sampler may be ahead of its trainer"},
            {"slots", "0", "graph stores and samplers that a machine takes; 0: any number", "0"},
            {"iterations", "8", "iterations whose bytes placements are compared on"},
            {"sample_seconds", "0.001", "seconds in which a sampler draws and puts together a mini-batch"},
            {"seed", "1", "of the trees and of the search"},
            {"search", "explore", "explore (Markov chain), initial (first feasible placement) or exhaustive"},
            {"proposals", "1000", "changes that explore tries"},
            {"transfers", "degree", "how connections share a network card: static, degree, max-min, iteration-first"}};
}

Result<PlanReport> GnnPlanner::plan(const Problem &problem, const Options &options, Progress &progress) const
{
    if (Status status = validate(problem); !status)
        return status.error();
    if (!problem.sampledGraph)
        return badInput("planner gnn needs the graph that is sampled; give its folder with --graph");
    auto settings = readSettings(options, this->options());
    if (!settings)
        return settings.error();
    if (Status counts = checkCounts(problem, *settings); !counts)
        return counts.error();
    const auto fanout = fanoutOfModel(problem);
    if (!fanout)
        return fanout.error();
    plan::Plan plan = draftOf(problem, options, *settings, *fanout);
    auto volumes = volumesFor(problem, plan, *settings);
    if (!volumes)
        return volumes.error();
    plan.job->volumes = *std::move(volumes);
    Placement machineOf;
    Job job = withDemands(plan::jobOf(plan, problem.subject, machineOf), settings->slots);
    plan::Plan alone = plan; // how long trainers take that never wait
    alone.job.reset();
    alone.roles.clear();
    const auto computed = simulate::simulatePlan(alone, problem.subject, {.trace = false, .memory = false});
    if (!computed)
        return computed.error();
    job.trainSeconds = computed->report.iterationSeconds;
    const auto placed = search(job, *settings, progress);
    if (!placed)
        return placed.error();
    apply(placed->machineOf, *problem.subject.cluster, plan);
    Result<PlanReport> report = finish(std::move(plan), problem);
    if (report)
        report->complete = placed->complete;
    return report;
}

} // namespace planloom::planners::gnn
