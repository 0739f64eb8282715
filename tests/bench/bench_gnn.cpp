// SPDX-License-Identifier: Apache-2.0
// How long the search of placements takes, and what it gains. Four machines with four trainers (two of them without
// trainer slots): 1,000 proposals, against random feasible placements. Then 64 machines by tables of bytes, as of a
// graph with 10^9 edges: the first placement and as many proposals as 20 seconds allow.
#include "engine/gnn/partition.h"
#include "engine/gnn/random.h"
#include "engine/gnn/volumes.h"
#include "planners/gnn/explore.h"
#include "planners/gnn/initial.h"
#include "tests/bench/deadline.h"

#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace planloom;
using namespace planloom::planners::gnn;
using bench::Watch;
using planloom::gnn::RoleKind;

void add(Job &job, RoleKind kind, std::vector<double> demand, std::int32_t trainer = -1, std::int32_t machine = -1)
{
    job.roles.push_back({std::string(planloom::gnn::name(kind)) + std::to_string(job.count(kind)), kind,
                         std::move(demand), trainer, machine});
}

/// @p trainers with @p perTrainer samplers each; trainer slots on the first half of the machines.
Job jobOf(std::int32_t machines, std::int32_t trainers, std::int32_t perTrainer, std::int32_t servers)
{
    constexpr double kGigabit = 125e6;
    Job job;
    job.resources = {"trainer-slots", "cores"};
    for (std::int32_t m = 0; m < machines; ++m)
        job.machines.push_back({"m" + std::to_string(m), {kGigabit, kGigabit}, {m < machines / 2 ? 2.0 : 0.0, 10}});
    for (std::int32_t g = 0; g < machines; ++g)
        add(job, RoleKind::GraphStore, {0, 1}, -1, g);
    for (std::int32_t s = 0; s < trainers * perTrainer; ++s)
        add(job, RoleKind::Sampler, {0, 1}, s / perTrainer);
    for (std::int32_t w = 0; w < trainers; ++w)
        add(job, RoleKind::Trainer, {1, 2});
    for (std::int32_t p = 0; p < servers; ++p)
        add(job, RoleKind::ParameterServer, {0, 1});
    job.sampleSeconds = 0.004;
    job.trainSeconds = 0.015;
    job.serveSeconds = 0.001;
    job.prefetch = 2;
    return job;
}

/// Random feasible placements: proposals that are all accepted.
double meanOfRandom(const Job &job, const Placement &start, Evaluation &evaluation, int count)
{
    Placement machineOf = start;
    Room room(job, machineOf);
    planloom::gnn::UnitStream units(9);
    const std::vector<std::int32_t> movable = movableRoles(job);
    double sum = 0;
    for (int i = 0; i < count; ++i) {
        for (int step = 0; step < 500; ++step) {
            const double kind = units.next();
            const double x = units.next();
            apply(proposalOf(job, movable, machineOf, kind, x, units.next()), machineOf, room);
        }
        sum += evaluation.seconds(machineOf);
    }
    return sum / count;
}

int fourMachines()
{
    planloom::gnn::BlockModel model;
    model.blockNodes = 16000;
    model.width = 256;
    auto graph = planloom::gnn::blockModelGraph(model);
    if (!graph)
        return 1;
    graph->part.resize(static_cast<std::size_t>(graph->nodes()));
    for (std::size_t node = 0; node < graph->part.size(); ++node)
        graph->part[node] = graph->labels[node]; // the blocks are the best parts
    Job job = jobOf(4, 4, 2, 1);
    planloom::gnn::SampleOptions options;
    options.localSeeds = true;
    options.treeForm = false;
    const std::vector<std::int32_t> homes{0, 0, 1, 1, 2, 2, 3, 3};
    auto volumes = planloom::gnn::sampledVolumes(*graph, homes, 6, options);
    NoProgress progress;
    if (!volumes)
        return 1;
    job.volumes = *std::move(volumes);
    job.volumes.model = 200000;
    const auto start = initialPlacement(job, progress);
    if (!start)
        return 1;
    Evaluation evaluation(job, TransferPolicy::Degree);
    const Watch watch(Watch::Clock::Processor);
    const Exploration found = explore(job, start->machineOf, {}, progress);
    const double seconds = watch.seconds();
    const double random = meanOfRandom(job, start->machineOf, evaluation, 12);
    const planloom::gnn::Bounds bounds = evaluation.bounds(found.machineOf);
    std::printf(
        "4 machines: 1,000 proposals in %.3f s; random %.4f s, first %.4f s (%.2f), explored %.4f s (%.2f), over the "
        "bound %.3f\n",
        seconds, random, found.startSeconds, random / found.startSeconds, found.seconds, random / found.seconds,
        found.seconds / bounds.lower());
    return 0;
}

int sixtyFourMachines()
{
    constexpr std::int32_t kMachines = 64;
    Job job = jobOf(kMachines, 64, 2, 8);
    job.volumes = planloom::gnn::Volumes(6, kMachines, 128);
    planloom::gnn::UnitStream units(1);
    for (std::int32_t n = 0; n < 6; ++n) {
        for (std::int32_t s = 0; s < 128; ++s) {
            for (std::int32_t g = 0; g < kMachines; ++g)
                job.volumes.feature(n, g, s) = g == s / 2 ? 8e6 : 1e5 * units.next();
            job.volumes.batch(n, s) = 8e6;
        }
    }
    job.volumes.model = 4e6;
    NoProgress progress;
    const Watch first(Watch::Clock::Wall);
    const auto start = initialPlacement(job, progress);
    if (!start) {
        std::fprintf(stderr, "%s\n", start.error().text().c_str());
        return 1;
    }
    const double firstSeconds = first.seconds();
    constexpr double kSearchSeconds = 20;
    bench::Deadline deadline(Watch::Clock::Wall, kSearchSeconds);
    ExploreOptions options;
    options.proposals = 1000000;
    const Watch search(Watch::Clock::Wall);
    const Exploration found = explore(job, start->machineOf, options, deadline);
    std::printf(
        "64 machines: first placement in %.3f s, %lld proposals in %.1f s; first %.4f s, explored %.4f s (%.3f)\n",
        firstSeconds, static_cast<long long>(found.proposals), search.seconds(), found.startSeconds, found.seconds,
        found.startSeconds / found.seconds);
    return 0;
}

} // namespace

int main() { return fourMachines() + sixtyFourMachines(); }
