// SPDX-License-Identifier: Apache-2.0
#include "engine/export/uniform.h"

#include "engine/plan/training.h"
#include "engine/plan/validate.h"
#include "engine/sharding/megatron.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace planloom::exporting {
namespace {

using plan::Plan;
using plan::Stage;

std::string quoted(const Plan &plan, std::size_t stage)
{
    return fmt::format("stage {} ('{}')", stage, plan.stages[stage].name);
}

/// Everything that must be the same on all stages.
Status checkEqualStages(const Plan &plan, const std::string &target)
{
    const Stage &first = plan.stages.front();
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        const Stage &stage = plan.stages[s];
        if (stage.replicas() != first.replicas() || stage.shards() != first.shards())
            return unsupported(fmt::format("{} has {} replicas of {} devices and stage 0 has {} of {}, but {} needs "
                                           "the same on every stage; plan with planner manual, "
                                           "or give the stages equal devices",
                                           quoted(plan, s), stage.replicas(), stage.shards(), first.replicas(),
                                           first.shards(), target));
        if (stage.mesh.size() > 2)
            return unsupported(fmt::format("{} lies on a mesh of {} dimensions, but {} has one for replicas and one "
                                           "for tensors; give it a mesh of two",
                                           quoted(plan, s), stage.mesh.size(), target));
        const auto [least, most] = std::minmax_element(stage.replicaShares.begin(), stage.replicaShares.end());
        if (least != stage.replicaShares.end() && *most - *least > 1e-9)
            return unsupported(fmt::format("the replicas of {} take unequal shares of a micro-batch, but {} cuts it "
                                           "evenly; give them equal shares",
                                           quoted(plan, s), target));
        if (stage.recompute != first.recompute)
            return unsupported(fmt::format(
                "{} recomputes '{}' and stage 0 '{}', but {} has one setting for all stages; make them equal",
                quoted(plan, s), plan::name(stage.recompute), plan::name(first.recompute), target));
        if (stage.zero != first.zero)
            return unsupported(fmt::format(
                "{} has ZeRO level {} and stage 0 level {}, but {} has one level for all stages; make them equal",
                quoted(plan, s), stage.zero, first.zero, target));
        if (stage.registers != 0)
            return unsupported(fmt::format("{} bounds its buffers to {} slots, which {} cannot; set registers to 0",
                                           quoted(plan, s), stage.registers, target));
    }
    return {};
}

/// Groups of stages on the same devices: as many in each, taken in turn.
Status checkGroups(const Plan &plan, const std::vector<std::vector<std::size_t>> &groups, const std::string &target)
{
    for (std::size_t g = 0; g < groups.size(); ++g) {
        for (std::size_t i = 0; i < groups[g].size(); ++i) {
            if (groups[g].size() == groups.front().size() && groups[g][i] == g + i * groups.size())
                continue;
            return unsupported(fmt::format("{} does not lie on the devices of its turn, but {} deals stages to devices "
                                           "in turn; put stage s on the devices of stage s mod {}",
                                           quoted(plan, groups[g][i]), target, groups.size()));
        }
    }
    return {};
}

Uniform::Order orderOf(const Plan &plan, std::size_t chunks)
{
    const plan::ScheduleKind kind = plan.schedule.kind;
    if (kind == plan::ScheduleKind::Interleaved1F1B && plan.schedule.warmup.empty())
        return chunks > 1 ? Uniform::Order::Interleaved : Uniform::Order::OneF1B;
    const bool early = kind == plan::ScheduleKind::GPipe || kind == plan::ScheduleKind::OneF1B
        || kind == plan::ScheduleKind::DappleA || kind == plan::ScheduleKind::DappleB;
    if (!early || chunks > 1)
        return Uniform::Order::Other;
    const std::vector<int> depths = plan::warmupDepths(plan);
    bool oneByOne = true;
    bool allFirst = true;
    for (std::size_t s = 0; s < depths.size(); ++s) {
        oneByOne = oneByOne
            && depths[s] == std::min<std::int64_t>(plan.microBatches, static_cast<std::int64_t>(depths.size() - s));
        allFirst = allFirst && depths[s] == plan.microBatches;
    }
    return oneByOne ? Uniform::Order::OneF1B : allFirst ? Uniform::Order::AllForwardsFirst : Uniform::Order::Other;
}

/// Places the ranks on nodes. A node's ranks must follow one another; in which order nodes and their devices come is
/// said at the start.
Status placeRanks(const plan::Document &document, const std::vector<std::vector<std::size_t>> &groups,
                  const std::string &target, Uniform &uniform)
{
    const cluster::Cluster &cluster = *document.subject.cluster;
    std::vector<std::vector<DeviceId>> nodes;
    std::set<std::int64_t> seen;
    for (const auto &group : groups) {
        for (const DeviceId id : document.plan.stages[group.front()].devices) {
            const NodeId node = cluster.device(id).node;
            if (nodes.empty() || cluster.device(nodes.back().front()).node != node) {
                if (!seen.insert(node.value).second)
                    return unsupported(
                        fmt::format("{} numbers the devices of a node one after the other, tensor-parallel ones first, "
                                    "then replicas, then stages, but {} comes after "
                                    "devices of another node; give each stage devices that follow one another",
                                    target, cluster.device(id).name));
                nodes.emplace_back();
            }
            nodes.back().push_back(id);
        }
    }
    for (const std::vector<DeviceId> &node : nodes)
        uniform.placement.devices.insert(uniform.placement.devices.end(), node.begin(), node.end());
    uniform.placement.clusterDevices = cluster.devices().size();
    uniform.nodes = nodes.size();
    uniform.perNode = nodes.front().size();
    bool ordered = true;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
        if (nodes[n].size() != uniform.perNode)
            return unsupported(fmt::format("the plan uses {} devices of one node and {} of another, but ranks are "
                                           "started with as many on each; use as many devices of each node",
                                           uniform.perNode, nodes[n].size()));
        ordered = ordered && std::is_sorted(nodes[n].begin(), nodes[n].end())
            && (n == 0 || nodes[n - 1].front() < nodes[n].front());
    }
    const std::size_t whole = cluster.nodes()[cluster.device(nodes.front().front()).node.index()].devices.size();
    for (std::size_t n = 0; n < nodes.size() && (!ordered || uniform.perNode != whole); ++n) {
        const cluster::Node &node = cluster.nodes()[cluster.device(nodes[n].front()).node.index()];
        std::vector<std::int64_t> places;
        for (const DeviceId id : nodes[n])
            places.push_back(id.value - node.devices.front().value);
        uniform.launch.push_back(
            fmt::format("node rank {} is {}, with CUDA_VISIBLE_DEVICES={}", n, node.name, fmt::join(places, ",")));
    }
    return {};
}

/// Names of the tensors that a stage's operators touch.
std::set<std::int32_t> tensorsOf(const plan::Document &document, const Stage &stage)
{
    const graph::Graph &graph = *document.subject.graph;
    const auto &layers = document.subject.layers().layers;
    std::set<std::int32_t> ids;
    for (std::int32_t op = layers[stage.firstLayer].first.value; op < layers[stage.lastLayer - 1].last.value; ++op) {
        for (const TensorId id : graph.op(OpId(op)).inputs)
            if (id.valid())
                ids.insert(id.value);
        for (const TensorId id : graph.op(OpId(op)).outputs)
            ids.insert(id.value);
    }
    return ids;
}

/// The stage's pin of a tensor: by name, else the longest pattern that matches.
const std::string *pinOf(const Stage &stage, const std::string &tensor)
{
    if (const auto exact = stage.shardings.find(tensor); exact != stage.shardings.end())
        return &exact->second;
    const std::pair<const std::string, std::string> *best = nullptr;
    for (const auto &pin : stage.shardings)
        if (pin.first.find('*') != std::string::npos && plan::matches(pin.first, tensor)
            && (!best || pin.first.size() > best->first.size()))
            best = &pin;
    return best ? &best->second : nullptr;
}

bool isWhole(const sharding::NdSbp &sbp)
{
    return std::all_of(sbp.begin() + (sbp.empty() ? 0 : 1), sbp.end(),
                       [](const sharding::Sbp &one) { return one.kind == sharding::Sbp::Kind::Broadcast; });
}

using Pins = std::map<std::string, sharding::NdSbp>;

/// Number of tensors with another layout than required, and a text on the first.
struct Differences {
    std::size_t count = 0;
    std::string first;
};

void addDifferences(const plan::Document &document, const Stage &stage, const Pins &wanted, Differences &found)
{
    for (const std::int32_t id : tensorsOf(document, stage)) {
        const graph::Tensor &tensor = document.subject.graph->tensor(TensorId(id));
        const auto want = wanted.find(tensor.name);
        const bool whole = want == wanted.end() || isWhole(want->second);
        const std::string *have = pinOf(stage, tensor.name);
        if (!have && whole)
            continue; // tensors without a requirement stay whole, or follow
        const auto sbp = have ? sharding::fromText(*have) : Result<sharding::NdSbp>(sharding::NdSbp{});
        if (have && whole && sbp && isWhole(*sbp))
            continue;
        if (have && !whole && sbp && *sbp == want->second)
            continue;
        if (found.count++ == 0)
            found.first = fmt::format("tensor {} lies as {} where it has {}", tensor.name, have ? *have : "B",
                                      want == wanted.end() ? "B" : sharding::toText(want->second));
    }
}

/// True if some table that the tokens are looked up in has no pin: the vocabulary does not divide.
bool isPadded(const graph::Graph &graph, const Pins &pins)
{
    return std::any_of(graph.ops().begin(), graph.ops().end(), [&](const graph::Op &op) {
        return op.type == "Gather" && graph.tensor(op.inputs[1]).role == graph::TensorRole::Input
            && !pins.contains(graph.tensor(op.inputs[0]).name);
    });
}

} // namespace

bool Uniform::onFirstDevices() const
{
    for (std::size_t rank = 0; rank < placement.devices.size(); ++rank)
        if (placement.devices[rank].index() != rank)
            return false;
    return true;
}

bool Uniform::onWholeCluster() const
{
    return placement.devices.size() == placement.clusterDevices && onFirstDevices();
}

Result<Uniform> uniformOf(const plan::Document &document, const std::string &target)
{
    const Plan &plan = document.plan;
    if (plan.exchange.averages())
        return unsupported(
            fmt::format("replicas average their parameters ({}), which {} does not; exchange by all-reduce",
                        plan::textOf(plan.exchange), target));
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
        if (plan.stages[s].memory.limits())
            return unsupported(fmt::format("{} has memory policy {}, which {} does not have; plan without it",
                                           plan::stageLabel(plan, s), plan::name(plan.stages[s].memory.filter),
                                           target));
    if (plan.exchange.hasTables())
        return unsupported(
            fmt::format("replicas exchange tables by rows ({}), which {} does not; exchange by all-reduce",
                        plan::textOf(plan.exchange), target));
    if (Status equal = checkEqualStages(plan, target); !equal)
        return equal.error();
    const auto groups = plan::stageGroups(plan);
    if (Status inTurn = checkGroups(plan, groups, target); !inTurn)
        return inTurn.error();
    Uniform uniform;
    const Stage &first = plan.stages.front();
    uniform.tensor = first.shards();
    uniform.data = first.replicas();
    uniform.pipeline = groups.size();
    uniform.chunks = groups.front().size();
    uniform.recompute = first.recompute;
    uniform.zero = uniform.data > 1 ? first.zero : 0;
    uniform.order = orderOf(plan, uniform.chunks);
    const std::int64_t slices = plan.microBatches * static_cast<std::int64_t>(uniform.data);
    if (plan.globalBatch % slices != 0)
        return unsupported(fmt::format("a batch of {} does not divide evenly into {} micro-batches on {} replicas, but "
                                       "{} has micro-batches of one size; choose a batch that is a multiple of {}",
                                       plan.globalBatch, plan.microBatches, uniform.data, target, slices));
    uniform.microBatch = plan.globalBatch / slices;
    if (Status placed = placeRanks(document, groups, target, uniform); !placed)
        return placed.error();
    return uniform;
}

Result<std::vector<std::int64_t>> blocksOf(const plan::Document &document, const graph::Transformer &model,
                                           const std::string &target)
{
    const auto &stages = document.plan.stages;
    const graph::LayerView &layers = document.subject.layers();
    const auto stageOf = [&](OpId op) {
        const std::size_t layer = layers.layerOf(op);
        return static_cast<std::size_t>(
            std::find_if(stages.begin(), stages.end(), [&](const Stage &stage) { return layer < stage.lastLayer; })
            - stages.begin());
    };
    if (stageOf(model.embedding) != 0 || stageOf(model.head) != stages.size() - 1)
        return unsupported(fmt::format("{} has the token embedding on the first stage and the head on the last; move "
                                       "the cuts between stages accordingly",
                                       target));
    std::vector<std::int64_t> blocks(stages.size(), 0);
    for (std::size_t b = 0; b < model.blocks.size(); ++b) {
        const std::size_t first = stageOf(model.blocks[b].first);
        if (first != stageOf(model.blocks[b].last))
            return unsupported(
                fmt::format("block {} is cut between {} and {}, but {} cuts between blocks; move the cut", b,
                            quoted(document.plan, first), quoted(document.plan, first + 1), target));
        ++blocks[first];
    }
    const auto empty = std::find(blocks.begin(), blocks.end(), 0);
    if (empty != blocks.end())
        return unsupported(fmt::format(
            "{} has no transformer block, but every stage of {} has one; move the cuts, or use fewer stages",
            quoted(document.plan, static_cast<std::size_t>(empty - blocks.begin())), target));
    return blocks;
}

Result<TensorLayout> tensorLayoutOf(const plan::Document &document, const Uniform &uniform, const std::string &target)
{
    if (uniform.tensor == 1)
        return TensorLayout{};
    const sharding::Mesh mesh{{static_cast<int>(uniform.data), static_cast<int>(uniform.tensor)}};
    const graph::Graph &graph = *document.subject.graph;
    Differences least;
    for (const bool sequence : {false, true}) {
        const Pins wanted = sharding::megatronPins(graph, mesh, {sequence, true});
        Differences found;
        for (const Stage &stage : document.plan.stages)
            addDifferences(document, stage, wanted, found);
        if (found.count == 0)
            return TensorLayout{sequence, isPadded(graph, wanted)};
        if (!sequence || found.count < least.count)
            least = found;
    }
    return unsupported(fmt::format("over its {} tensor-parallel devices {} lays tensors out in one way, with table and "
                                   "head split over the vocabulary: {}; plan with planner manual, "
                                   "tensor={}, vocabulary=on",
                                   uniform.tensor, target, least.first, uniform.tensor));
}

std::string numberText(double value) { return fmt::format("{}", value); }

} // namespace planloom::exporting
