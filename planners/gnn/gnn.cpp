// SPDX-License-Identifier: Apache-2.0
#include "planners/gnn/gnn.h"

#include "engine/gnn/volumes.h"
#include "engine/plan/batch_form.h"
#include "planners/gnn/joint.h"
#include "planners/gnn/placed_plan.h"
#include "planners/interface/options.h"

#include <fmt/format.h>

#include <algorithm>

namespace planloom::planners::gnn {
namespace {

using planloom::gnn::RoleKind;

constexpr std::int64_t kMostSearched = 1 << 20;
constexpr std::int64_t kMostServersOfDevice = 2; // more would only take turns on their machine's processors

struct GnnSettings {
    std::int64_t trainers = 0;
    std::int64_t samplers = 1;
    std::int64_t prefetch = 2;
    std::int64_t slots = 0;
    std::int64_t iterations = 8;
    std::int64_t seed = 1;
    double sampleSeconds = 0;
    std::int64_t servers = 0;
    std::int64_t chunkBytes = 0;
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
    settings.prefetch = reader.integer("prefetch", 0, 1 << 16);
    settings.slots = reader.integer("slots", 0, 1 << 16);
    settings.iterations = reader.integer("iterations", 2, 1 << 12);
    settings.seed = reader.integer("seed", 0, std::int64_t{1} << 53);
    settings.sampleSeconds = reader.number("sample_seconds", 0, 1e6);
    settings.servers = reader.integer("servers", 0, 1 << 16);
    settings.chunkBytes = reader.integer("chunk_bytes", 1, std::int64_t{1} << 40);
    settings.search = reader.choice("search");
    settings.proposals = reader.integer("proposals", 0, 1 << 24);
    const auto policy = planloom::gnn::transferPolicyFromName(reader.choice("transfers"));
    if (!reader.status())
        return reader.status().error();
    settings.transfers = policy ? *policy : settings.transfers;
    return settings;
}

/// The fan-out that the model's inputs have.
Result<planloom::gnn::Fanout> fanoutOfModel(const Problem &problem)
{
    const auto inputs = plan::sampledInputsOf(*problem.subject.graph);
    if (!inputs)
        return inputs.error();
    const std::int64_t width = problem.sampledGraph->width;
    if (inputs->features != width)
        return badInput(
            fmt::format("the graph has {} features a node, and the model wants {}; plan another model (of the "
                        "zoo, graphsage and gcn take 64, graphsage-blocks and gcn-blocks 16), or make the "
                        "graph with --width {}",
                        width, inputs->features, inputs->features));
    return inputs->fanout;
}

/// Whether a profile was measured with the plan's graph.
bool rolesAreProfiled(const Problem &problem)
{
    return problem.subject.profile && problem.subject.profile->extra.contains("sampler_draw_seconds_per_place");
}

/// Mean places of a node's tree: as many as are drawn, or fewer where neighbourhoods are taken whole.
double placesOfTree(const Problem &problem, const plan::SampledJob &job)
{
    constexpr std::int64_t kMostTrees = 2048;
    const planloom::gnn::GraphData &graph = *problem.sampledGraph;
    const bool whole = plan::batchFormOf(*problem.subject.graph) == plan::BatchForm::WholeBlocks;
    if (!whole)
        return static_cast<double>(job.fanout.rows());
    const std::int64_t stride = std::max<std::int64_t>(1, graph.nodes() / kMostTrees);
    std::int64_t trees = 0;
    std::vector<std::int64_t> places;
    for (std::int64_t node = 0; node < graph.nodes(); node += stride) {
        if (graph.labels[static_cast<std::size_t>(node)] < 0)
            continue;
        planloom::gnn::appendTree(graph, {job.fanout, whole, job.seed, 0}, node, places);
        ++trees;
    }
    return trees == 0 ? static_cast<double>(job.fanout.rows())
                      : static_cast<double>(places.size()) / static_cast<double>(trees);
}

/// How long roles take: as the profile has it, which was measured with the plan's graph; else as long as the device's
/// memory takes for what they copy.
void setSeconds(const Problem &problem, const GnnSettings &settings, plan::SampledJob &job)
{
    constexpr double kDraw = 8e-8;     // seconds of a place of the trees: on the Debian graph a server core took 75 ns
    constexpr double kStateBytes = 28; // Adam reads gradient, parameter and two moments, and writes the last three
    const double memory = problem.subject.cluster->types().front().memoryBandwidth;
    const double copy = 2 * 4.0 * static_cast<double>(job.graph.features) / memory; // of a row: reads and writes
    const auto measured = [&profile = problem.subject.profile](const char *name) {
        return profile && profile->extra.contains(name) ? profile->extra.at(name) : 0.0;
    };
    const auto either = [](double figure, double otherwise) { return figure > 0 ? figure : otherwise; };
    const std::int64_t samples = problem.globalBatch / (settings.trainers * settings.samplers);
    const double places = static_cast<double>(samples) * placesOfTree(problem, job);
    job.drawSeconds = places * either(measured("sampler_draw_seconds_per_place"), kDraw);
    job.rowSeconds = either(measured("store_seconds_per_row"), copy);
    job.sampleSeconds =
        either(settings.sampleSeconds, places * either(measured("sampler_load_seconds_per_place"), copy));
    if (settings.servers > 0)
        job.updateSeconds = either(measured("optimizer_seconds_per_parameter"), kStateBytes / memory)
            * static_cast<double>(problem.subject.graph->parameterBytes().value()) / 4
            / static_cast<double>(settings.servers);
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
    plan.job->prefetch = static_cast<std::int32_t>(std::max<std::int64_t>(1, settings.prefetch));
    plan.job->transfers = settings.transfers;
    plan.job->chunkBytes = settings.chunkBytes;
    setSeconds(problem, settings, *plan.job);
    const auto nodes = problem.subject.cluster->nodes();
    for (std::int32_t part = 0; part < graph.parts(); ++part)
        plan.roles.push_back({fmt::format("g{}", part), RoleKind::GraphStore,
                              nodes[static_cast<std::size_t>(part) % nodes.size()].name, part, -1});
    for (std::int64_t s = 0; s < settings.trainers * settings.samplers; ++s)
        plan.roles.push_back({fmt::format("s{}", s), RoleKind::Sampler, nodes.front().name, -1,
                              static_cast<std::int32_t>(s / settings.samplers)});
    for (std::int64_t p = 0; p < settings.servers; ++p)
        plan.roles.push_back({fmt::format("p{}", p), RoleKind::ParameterServer, nodes.front().name, -1, -1});
    if (settings.servers > 0)
        plan.exchange.policy = plan::ExchangePolicy::ParameterServer;
    return plan;
}

Result<planloom::gnn::Volumes> volumesFor(const Problem &problem, const plan::Plan &plan, const GnnSettings &settings)
{
    const std::int64_t samplers = settings.trainers * settings.samplers;
    planloom::gnn::SampleOptions sampling;
    sampling.fanout = plan.job->fanout;
    sampling.batch = problem.globalBatch / samplers;
    sampling.seed = plan.job->seed;
    const plan::BatchForm form = plan::batchFormOf(*problem.subject.graph);
    sampling.treeForm = form == plan::BatchForm::Trees;
    sampling.whole = form == plan::BatchForm::WholeBlocks;
    sampling.bytesOfRow = sampling.whole ? 4 : 0; // its degree, from which factors follow
    sampling.bytesOfPlace = 4;                    // which of the rows it is
    const std::vector<std::int32_t> homes(static_cast<std::size_t>(samplers), 0); // seeds are of the whole graph
    auto volumes = planloom::gnn::sampledVolumes(*problem.sampledGraph, homes,
                                                 static_cast<std::int32_t>(settings.iterations), sampling);
    if (!volumes)
        return volumes;
    constexpr double kLabelBytes = 8;
    for (double &bytes : volumes->batches)
        bytes += static_cast<double>(sampling.batch) * kLabelBytes;
    return volumes;
}

SearchOptions searchOptions(const GnnSettings &settings)
{
    SearchOptions how;
    how.kind = settings.search == "initial" ? SearchKind::Initial
        : settings.search == "exhaustive"   ? SearchKind::Exhaustive
                                            : SearchKind::Explore;
    how.explore.proposals = settings.proposals;
    how.explore.seed = static_cast<std::uint64_t>(settings.seed);
    how.explore.policy = settings.transfers;
    how.mostPlacements = kMostSearched;
    return how;
}

/// What the prefetch was worth, for the notes of a plan.
std::string noteOf(const JointResult &found)
{
    std::string text = fmt::format("prefetch {} was chosen; all iterations take", found.chosen.prefetch);
    for (const TriedChoice &tried : found.tried)
        text += fmt::format(" {} with {},", format(Seconds(tried.seconds)), tried.value);
    text.pop_back();
    return text;
}

/// The placement, and the prefetch where the settings leave it open.
Result<SearchResult> search(Job job, const GnnSettings &settings, plan::Plan &plan, std::vector<std::string> &notes,
                            Progress &progress)
{
    if (settings.prefetch > 0)
        return searchPlacement(job, searchOptions(settings), progress);
    JointOptions options;
    options.search = searchOptions(settings);
    options.exchanges = false; // the plan's stage has its own
    auto found = searchJointly(job, {}, options, progress);
    if (!found)
        return found.error();
    plan.job->prefetch = found->chosen.prefetch;
    notes.push_back(noteOf(*found));
    return std::move(found->search);
}

Status checkCounts(const Problem &problem, GnnSettings &settings)
{
    const auto devices = static_cast<std::int64_t>(problem.subject.cluster->devices().size());
    if (settings.trainers == 0)
        settings.trainers = devices;
    if (settings.trainers > devices)
        return badInput(fmt::format("{} trainers do not fit the {} devices of cluster {}; use at most {}",
                                    settings.trainers, devices, problem.subject.cluster->name(), devices));
    if (settings.servers > kMostServersOfDevice * devices)
        return infeasible(fmt::format("{} parameter servers are too many for the {} devices of cluster {}: servers "
                                      "compute on their machines' processors, each on a part of the parameters; use at "
                                      "most {}",
                                      settings.servers, devices, problem.subject.cluster->name(),
                                      kMostServersOfDevice * devices));
    const std::int64_t shares = settings.trainers * settings.samplers;
    if (problem.globalBatch % shares != 0)
        return badInput(fmt::format("a batch of {} cannot be shared out evenly by {} trainers with {} samplers each; "
                                    "use a multiple of {}, such as --batch {}",
                                    problem.globalBatch, settings.trainers, settings.samplers, shares,
                                    (problem.globalBatch + shares - 1) / shares * shares));
    return {};
}

} // namespace

std::vector<OptionInfo> GnnPlanner::options() const
{
    std::vector<std::string> policies;
    for (const TransferPolicy policy : planloom::gnn::kTransferPolicies)
        policies.emplace_back(planloom::gnn::name(policy));
    return {{"trainers", "0", "replicas of the model; 0: one on each device"},
            {"samplers", "1", "samplers of each trainer"},
            {"prefetch", "2",
             "mini-batches that a sampler may be ahead of its trainer; 0: 1, 2 or 4, the fewest within 1 %"},
            {"servers", "0", "parameter servers; 0: trainers sum up their gradients by all-reduce"},
            {"slots", "0", "graph stores, samplers and servers that a machine takes; 0: any number", "0"},
            {"iterations", "8", "iterations whose bytes placements are compared on"},
            {"sample_seconds", "0",
             "seconds in which a sampler puts together a mini-batch; 0: as profiled, else by the memory's bandwidth"},
            {"seed", "1", "of the trees and of the search"},
            {"search",
             "explore",
             "explore (Markov chain), initial (first feasible placement) or exhaustive",
             "",
             {"explore", "initial", "exhaustive"}},
            {"proposals", "0", "changes that explore tries; 0: 1,000, fewer for a large job: some 10 seconds"},
            {"transfers", "degree", "how connections share a network card: static, degree, max-min, iteration-first",
             "", policies},
            {"chunk_bytes", "262144", "messages are sent in pieces of so many bytes"}};
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
    plan.job->volumesBatch = plan.globalBatch;
    Placement machineOf;
    const auto job = searchJobOf(plan, problem.subject, settings->slots, machineOf);
    if (!job)
        return job.error();
    std::vector<std::string> notes;
    const auto placed = search(*job, *settings, plan, notes, progress);
    if (!placed)
        return placed.error();
    const auto fastest = fastestOf(*placed, plan, problem.subject);
    if (!fastest)
        return fastest.error();
    placeRoles(*fastest, *problem.subject.cluster, plan);
    Result<PlanReport> report = finish(std::move(plan), problem);
    if (report) {
        report->complete = placed->complete();
        report->notes.insert(report->notes.end(), notes.begin(), notes.end());
        if (!rolesAreProfiled(problem))
            report->notes.emplace_back("how long samplers, stores and servers take follows from the memory's bandwidth "
                                       "and was not measured; measure it with planloom profile --plan PLAN --graph "
                                       "FOLDER, and plan again with --profile");
    }
    return report;
}

} // namespace planloom::planners::gnn
