// SPDX-License-Identifier: Apache-2.0
#include "planners/manual/from_setup.h"

#include "engine/graph/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>

namespace planloom::planners::manual {
namespace {

using plan::Setup;

/// Beyond this no training is known, and tables of micro-batches would fill the memory.
constexpr std::int64_t kLargestBatch = std::int64_t{1} << 24;

std::pair<const char *, std::int64_t> sizeOf(const graph::Transformer &model, Setup::Claim::What what)
{
    switch (what) {
    case Setup::Claim::What::Blocks: return {"blocks", static_cast<std::int64_t>(model.blocks.size())};
    case Setup::Claim::What::Hidden: return {"for its width", model.hidden};
    case Setup::Claim::What::FeedForward: return {"for the width of its feed-forward networks", model.feedForward};
    case Setup::Claim::What::Heads: return {"heads", model.heads};
    case Setup::Claim::What::KvHeads: return {"key and value heads", model.kvHeads};
    case Setup::Claim::What::Tokens: break;
    }
    return {"tokens in a sample", model.sequence};
}

Status checkClaims(const Setup &setup, const graph::Transformer &model, const std::string &name)
{
    for (const Setup::Claim &claim : setup.model) {
        const auto [what, size] = sizeOf(model, claim.what);
        if (size != claim.value)
            return badInput(fmt::format("{} is {}, but model {} has {} {}; give the model that the file is about",
                                        claim.key, claim.value, name, size, what))
                .in(setup.file, claim.line);
    }
    return {};
}

/// As many blocks on each stage, but for the fewer ones of the first and the last.
std::vector<std::int64_t> sharedOut(std::int64_t blocks, std::size_t stages,
                                    std::pair<std::int64_t, std::int64_t> fewer)
{
    const auto count = static_cast<std::int64_t>(stages);
    const std::int64_t all = blocks + fewer.first + fewer.second;
    std::vector<std::int64_t> shares(stages, all / count);
    for (std::int64_t s = 0; s < all % count; ++s)
        ++shares[static_cast<std::size_t>(s)];
    shares.front() -= fewer.first;
    shares.back() -= fewer.second;
    return shares;
}

/// The layers that stages begin with, but the first: "4,7,10".
Result<std::string> cutsOf(const Setup &setup, const graph::Transformer &model, const graph::LayerView &layers)
{
    const std::size_t stages = setup.pipeline * setup.chunks;
    std::vector<std::int64_t> blocks = setup.blocks;
    if (!blocks.empty() && blocks.back() == 0)
        blocks.back() = static_cast<std::int64_t>(model.blocks.size())
            - std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
    if (blocks.empty() && setup.fewer)
        blocks = sharedOut(static_cast<std::int64_t>(model.blocks.size()), stages, *setup.fewer);
    if (blocks.empty() && model.blocks.size() % stages != 0)
        return badInput(fmt::format("{} blocks do not divide evenly into {} stages; change the number of stages, or "
                                    "say how many blocks each has",
                                    model.blocks.size(), stages))
            .in(setup.file);
    if (blocks.empty())
        blocks.assign(stages, static_cast<std::int64_t>(model.blocks.size() / stages));
    if (std::any_of(blocks.begin(), blocks.end(), [](std::int64_t count) { return count < 1; }))
        return badInput(fmt::format("one of its {} stages has none of the model's {} blocks; use fewer stages", stages,
                                    model.blocks.size()))
            .in(setup.file);
    if (blocks.size() != stages
        || std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0})
            != static_cast<std::int64_t>(model.blocks.size()))
        return badInput(
                   fmt::format(
                       "its {} stages do not have the model's {} blocks together; correct the number of blocks of each",
                       blocks.size(), model.blocks.size()))
            .in(setup.file);
    std::string text;
    std::size_t block = 0;
    for (std::size_t s = 0; s + 1 < stages; ++s) {
        block += static_cast<std::size_t>(blocks[s]);
        text += (text.empty() ? "" : ",") + std::to_string(layers.layerOf(model.blocks[block].first));
    }
    return text;
}

/// The devices of option devices, else those that the file's plan lay on, if they are of this cluster and the options
/// leave the degrees as they are. Says so in @p notes where the file's are not used.
std::optional<plan::Placement> placementFor(const Setup &setup, const Options &own, const cluster::Cluster &cluster,
                                            std::vector<std::string> &notes)
{
    const std::size_t all = cluster.devices().size();
    if (const auto given = own.find("devices"); given != own.end()) {
        auto devices = plan::rangesFromText(given->second, all - 1);
        return devices ? std::optional(plan::Placement{*std::move(devices), all})
                       : std::nullopt; // an error is manual's
    }
    if (!setup.placement || own.contains("data") || own.contains("tensor") || own.contains("pipeline"))
        return std::nullopt;
    const plan::Placement &placement = *setup.placement;
    const std::string named = plan::rangesText(placement.devices);
    const std::size_t others = setup.tensor * setup.pipeline;
    const std::size_t count = placement.devices.size();
    if (placement.clusterDevices != all)
        notes.push_back(fmt::format("the file is of a plan on devices {} of a cluster of {}; on cluster {}, of {}, the "
                                    "plan takes the first devices",
                                    named, placement.clusterDevices, cluster.name(), all));
    else if (setup.data == 0 ? count % others != 0 : count != setup.data * others)
        notes.push_back(fmt::format("the file names devices {}, which do not go with its replicas, {} tensor-parallel "
                                    "devices and {} stages; the plan takes the first devices",
                                    named, setup.tensor, setup.pipeline));
    else
        return placement;
    return std::nullopt;
}

/// Replicas: as given, else the rest of the devices.
Result<std::int64_t> replicasOf(const Setup &setup, const Options &options,
                                const std::optional<plan::Placement> &placement, const cluster::Cluster &cluster)
{
    const auto devices = placement ? placement->devices.size() : cluster.devices().size();
    const std::size_t others = setup.tensor * setup.pipeline;
    if (const auto own = options.find("data"); own != options.end() && own->second != "0")
        return std::strtoll(own->second.c_str(), nullptr, 10); // the planner reports the error
    const std::size_t data = setup.data != 0 ? setup.data : devices / others;
    if (data * others > devices || data == 0)
        return badInput(fmt::format("its {} replicas x {} tensor-parallel devices x {} stages are more than the {} "
                                    "devices of cluster {}; give a larger cluster",
                                    std::max<std::size_t>(1, data), setup.tensor, setup.pipeline, devices,
                                    cluster.name()))
            .in(setup.file);
    if (setup.data == 0 && devices % others != 0)
        return badInput(fmt::format("{} tensor-parallel devices x {} stages do not divide the {} devices of cluster "
                                    "{}; add --set data=N for N replicas",
                                    setup.tensor, setup.pipeline, devices, cluster.name()))
            .in(setup.file);
    return static_cast<std::int64_t>(data);
}

struct Batches {
    std::int64_t all = 0;
    std::int64_t each = 0;
};

Result<Batches> batchesOf(const Setup &setup, std::int64_t replicas)
{
    const std::int64_t parts = setup.accumulation * replicas;
    if (setup.microBatch == 0 && setup.globalBatch % parts != 0)
        return badInput(fmt::format("a batch of {} does not divide evenly into {} micro-batches on {} replicas; change "
                                    "one of them, or the cluster",
                                    setup.globalBatch, setup.accumulation, replicas))
            .in(setup.file);
    const std::int64_t each = setup.microBatch == 0 ? setup.globalBatch / parts : setup.microBatch;
    const std::int64_t all = setup.globalBatch == 0 ? each * parts : setup.globalBatch;
    if (all % (each * replicas) != 0)
        return badInput(fmt::format("a batch of {} is not a multiple of {} samples on each of {} replicas; change one "
                                    "of them, or the cluster",
                                    all, each, replicas))
            .in(setup.file);
    if (setup.perReplica != 0 && all != setup.perReplica * replicas)
        return badInput(fmt::format("a batch of {} is not one of {} on each of {} replicas, and a pipeline takes its "
                                    "whole batch at once; change one of them, or the cluster",
                                    all, setup.perReplica, replicas))
            .in(setup.file);
    if (all > kLargestBatch)
        return badInput(fmt::format("a batch of {} is more than can be planned; give at most {}", all, kLargestBatch))
            .in(setup.file);
    return Batches{all, each};
}

const char *optionOf(plan::Recompute recompute)
{
    return recompute == plan::Recompute::None ? "never"
        : recompute == plan::Recompute::Full  ? "always"
                                              : plan::name(recompute);
}

Options optionsOf(const Setup &setup, std::int64_t replicas, const std::string &cuts)
{
    Options options{{"data", std::to_string(replicas)},
                    {"pipeline", std::to_string(setup.pipeline)},
                    {"tensor", std::to_string(setup.tensor)}};
    if (setup.chunks > 1)
        options["interleave"] = std::to_string(setup.chunks);
    else
        options["schedule"] = plan::name(setup.schedule);
    if (setup.tensor > 1)
        options["vocabulary"] = "on";
    if (setup.sequence && setup.tensor > 1)
        options["sequence"] = "on";
    if (setup.recompute != plan::Recompute::None)
        options["recompute"] = optionOf(setup.recompute);
    if (!cuts.empty())
        options["cuts"] = cuts;
    return options;
}

} // namespace

Result<Request> requestFrom(const plan::Setup &setup, plan::Subject subject, const Options &own)
{
    std::string cuts;
    if (!setup.model.empty() || setup.pipeline * setup.chunks > 1) {
        const auto model = graph::readTransformer(*subject.graph);
        if (!model)
            return unsupported(fmt::format("is about a transformer, but {}; give the model that the file is about",
                                           model.error().message))
                .in(setup.file);
        if (Status fits = checkClaims(setup, *model, subject.graph->name()); !fits)
            return fits.error();
        const auto found = cutsOf(setup, *model, subject.layers());
        if (!found)
            return found.error();
        cuts = *found;
    }
    Request request;
    const auto placement = placementFor(setup, own, *subject.cluster, request.notes);
    const auto replicas = replicasOf(setup, own, placement, *subject.cluster);
    if (!replicas)
        return replicas.error();
    const auto batches = batchesOf(setup, std::max<std::int64_t>(1, *replicas));
    if (!batches)
        return batches.error();
    request.options = optionsOf(setup, *replicas, cuts);
    if (placement)
        request.options["devices"] = plan::rangesText(placement->devices);
    for (const auto &[key, value] : own)
        request.options[key] = value;
    request.problem.subject = plan::inPrecision(subject, setup.precision);
    request.problem.globalBatch = batches->all;
    request.problem.microBatch = batches->each;
    request.problem.optimizer = setup.optimizer;
    request.problem.precision = setup.precision;
    request.problem.zero = setup.zero;
    return request;
}

} // namespace planloom::planners::manual
