// SPDX-License-Identifier: Apache-2.0
// How long the search of placements takes, and what it gains, as tables.
// X5: four machines of which two have trainer slots; 12 random feasible placements, the first placement, the search
// with 1,000 proposals, bounds. X6: the same with slots on all machines, where colocation (DGL's way) fits. Joint:
// partition, exchange, cache and prefetch with the placement. Then 64 machines by tables of bytes, as of a graph with
// 10^9 edges. Usage: bench_gnn [FOLDER]: a graph with four parts (planloom graph debian --parts 4 --width 256); without
// it a planted partition of 64,000 nodes. Lines that begin with "accept" say whether a figure is as it has to be.
#include "engine/gnn/partition.h"
#include "engine/gnn/random.h"
#include "engine/gnn/volumes.h"
#include "executor/data/graph_folder.h"
#include "planners/gnn/joint.h"
#include "tests/bench/deadline.h"

#include <algorithm>
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

struct Randoms {
    double mean = 0;
    double best = 0;
};

int accept(bool holds, const char *what)
{
    std::printf("accept %s: %s\n", holds ? "yes" : "NO", what);
    return holds ? 0 : 1;
}

/// 64,000 nodes in four blocks, or a graph folder.
Result<planloom::gnn::GraphData> graphFor(const char *folder)
{
    if (folder != nullptr)
        return data::readGraphFolder(folder);
    planloom::gnn::BlockModel model;
    model.blockNodes = 16000;
    model.width = 256;
    return planloom::gnn::blockModelGraph(model);
}

Result<std::vector<std::int32_t>> partsOf(const planloom::gnn::GraphData &graph, planloom::gnn::PartitionMethod method)
{
    planloom::gnn::PartitionOptions options;
    options.parts = 4;
    options.method = method;
    return planloom::gnn::partitionOf(graph, options);
}

SampledFrom sampledFrom(const planloom::gnn::GraphData &graph)
{
    SampledFrom from;
    from.graph = &graph;
    from.homes = {0, 0, 1, 1, 2, 2, 3, 3};
    from.sampling.localSeeds = true;
    from.sampling.treeForm = false;
    return from;
}

Randoms randomPlacements(const Job &job, const Placement &start, Evaluation &evaluation, int count)
{
    Placement machineOf = start;
    Room room(job, machineOf);
    planloom::gnn::UnitStream units(9);
    const std::vector<std::int32_t> movable = movableRoles(job);
    Randoms all{0, 1e300};
    for (int i = 0; i < count; ++i) {
        for (int step = 0; step < 500; ++step) {
            const double kind = units.next();
            const double x = units.next();
            apply(proposalOf(job, movable, machineOf, kind, x, units.next()), machineOf, room);
        }
        const double seconds = evaluation.seconds(machineOf);
        all.mean += seconds / count;
        all.best = std::min(all.best, seconds);
    }
    return all;
}

/// A row of X5, and one of X6 with @p everywhere: trainer slots on all machines.
int row(const char *name, Job job, bool everywhere)
{
    for (planloom::gnn::Machine &machine : job.machines)
        machine.capacity[0] = everywhere ? 2 : machine.capacity[0];
    NoProgress progress;
    Evaluation evaluation(job, TransferPolicy::Degree);
    SearchOptions options;
    options.explore.proposals = 1000;
    const Watch watch(Watch::Clock::Processor);
    const auto found = searchPlacement(job, options, progress);
    const double seconds = watch.seconds();
    if (!found)
        return accept(false, found.error().text().c_str());
    const Randoms random = randomPlacements(job, found->initial, evaluation, 12);
    const double lower = evaluation.bounds(found->machineOf).lower();
    const double statically = Evaluation(job, TransferPolicy::Static).seconds(found->initial);
    const std::string colocated =
        found->colocatedSeconds ? std::to_string(*found->colocatedSeconds).substr(0, 6) : std::string("-");
    std::printf("%-22s %8.4f (%.4f) %8.4f %9s %8.4f %8.4f %8.4f %8.3f\n", name, random.mean, random.best,
                found->initialSeconds, colocated.c_str(), found->seconds, lower, statically, seconds);
    return accept(found->seconds <= found->initialSeconds, "the search is never worse than the first placement")
        + accept(!found->colocatedSeconds || found->seconds <= *found->colocatedSeconds, "nor than colocation")
        + accept(random.mean > found->initialSeconds, "random placements are slower than the first one")
        + accept(seconds <= 1, "1,000 proposals in at most 1 s of the processor");
}

int fourMachines(const char *folder)
{
    auto graph = graphFor(folder);
    if (!graph) {
        std::fprintf(stderr, "%s\n", graph.error().text().c_str());
        return 1;
    }
    std::printf("%-22s %17s %8s %9s %8s %8s %8s %8s\n", "s of 6 iterations", "random (best)", "first", "colocated",
                "search", "bound", "static", "search s");
    int failed = 0;
    for (const auto method : {planloom::gnn::PartitionMethod::Metis, planloom::gnn::PartitionMethod::Hash}) {
        if (method == planloom::gnn::PartitionMethod::Metis && !planloom::gnn::hasMetis())
            continue;
        const auto part = partsOf(*graph, method);
        if (!part)
            return 1;
        graph->part = *part;
        Job job = jobOf(4, 4, 2, 1);
        const SampledFrom from = sampledFrom(*graph);
        auto volumes = planloom::gnn::sampledVolumes(*graph, from.homes, 6, from.sampling);
        if (!volumes)
            return 1;
        job.volumes = *std::move(volumes);
        job.volumes.model = 200000;
        const std::string name = planloom::gnn::name(method);
        failed += row(("X5 " + name + ", slots on half").c_str(), job, false);
        failed += row(("X6 " + name + ", slots on all").c_str(), job, true);
        if (method == planloom::gnn::PartitionMethod::Metis)
            continue;
        NoProgress progress;
        JointOptions options;
        const Watch watch(Watch::Clock::Processor);
        const auto joint = searchJointly(job, from, options, progress);
        if (!joint)
            return 1;
        std::printf(
            "joint, from hash: %.4f s as given, %.4f s with %s, %s, cache %g %%, prefetch %d; %.1f s of search\n",
            joint->givenSeconds, joint->search.seconds, planloom::planners::gnn::name(joint->chosen.parts),
            planloom::gnn::name(joint->chosen.exchange), joint->chosen.cacheShare * 100,
            static_cast<int>(joint->chosen.prefetch), watch.seconds());
        for (const TriedChoice &tried : joint->tried)
            std::printf("  %-10s %-18s %.4f s%s%s\n", tried.what.c_str(), tried.value.c_str(), tried.seconds,
                        tried.chosen ? ", chosen" : "", tried.given ? ", as given" : "");
        failed +=
            accept(joint->search.seconds <= joint->givenSeconds, "the joint choice is never worse than the given one");
    }
    return failed;
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
    SearchOptions options;
    options.explore.proposals = 0; // as many as `planloom place` makes
    const Watch watch(Watch::Clock::Wall);
    const auto found = searchPlacement(job, options, progress);
    const double seconds = watch.seconds();
    if (!found) {
        std::fprintf(stderr, "%s\n", found.error().text().c_str());
        return 1;
    }
    Evaluation evaluation(job, TransferPolicy::Degree);
    std::printf("64 machines: first %.4f s; %lld changes by load (busiest card %.4f to %.4f s an iteration, %lld "
                "tried) lead to "
                "%.4f s; %lld proposals to %.4f s (%.3f); bound %.4f s; %.1f s of search\n",
                found->initialSeconds, static_cast<long long>(found->balanced->changes.size()),
                found->balanced->busiestBefore, found->balanced->busiest,
                static_cast<long long>(found->balanced->tried), found->balancedSeconds.value_or(found->initialSeconds),
                static_cast<long long>(found->exploration->proposals), found->seconds,
                found->initialSeconds / found->seconds, evaluation.bounds(found->machineOf).lower(), seconds);
    return accept(found->seconds < found->initialSeconds, "the search finds better than the first placement")
        + accept(seconds <= 30, "a placement of 64 machines in at most 30 s");
}

} // namespace

int main(int argc, char **argv) { return fourMachines(argc > 1 ? argv[1] : nullptr) + sixtyFourMachines(); }
