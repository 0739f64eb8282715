// SPDX-License-Identifier: Apache-2.0
#include "planners/whale/patterns.h"

#include "engine/cost/collectives.h"
#include "engine/sharding/boxing.h"
#include "engine/sharding/megatron.h"
#include "engine/sharding/shard.h"
#include "engine/sharding/signatures.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>

namespace planloom::planners::whale {
namespace {

using graph::Op;
using graph::Tensor;
using graph::TensorRole;
using sharding::Sbp;

using Pins = std::map<std::string, sharding::NdSbp>;

constexpr int kMostSuggested = 32; // each number that is tried shards the task graph once

/// Which operators of a model form the task graph.
struct Range {
    OpId first;
    OpId last;
};

/// The walk: one layout per tensor over the devices that split the task graph.
class Walk {
public:
    Walk(const graph::Graph &graph, int parts, Pins pins, const std::set<std::string> &whole)
        : m_graph(graph),
          m_parts(parts),
          m_pins(std::move(pins))
    {
        for (const std::string &parameter : whole)
            m_pins[parameter] = sharding::NdSbp(2);
    }

    Pins run(const Range &range)
    {
        for (OpId id = range.first; id < range.last; id = OpId(id.value + 1))
            if (const auto signature = best(m_graph.op(id)))
                apply(m_graph.op(id), *signature);
        return std::move(m_pins);
    }

private:
    [[nodiscard]] bool isParameter(TensorId id) const
    {
        return id.valid() && m_graph.tensor(id).role == TensorRole::Parameter;
    }
    [[nodiscard]] const sharding::NdSbp *pinOf(TensorId id) const
    {
        const auto pin = m_pins.find(m_graph.tensor(id).name);
        return pin == m_pins.end() ? nullptr : &pin->second;
    }
    [[nodiscard]] Sbp layoutOf(TensorId id) const
    {
        if (isParameter(id))
            return pinOf(id) ? pinOf(id)->back() : sharding::broadcast();
        const auto known = m_layouts.find(id);
        return known == m_layouts.end() ? sharding::broadcast() : known->second;
    }

    /// A weight that has no layout yet: splitting the task graph is about these.
    [[nodiscard]] bool isOpenWeight(TensorId id) const
    {
        return isParameter(id) && !pinOf(id) && m_graph.tensor(id).shape.rank() > 1;
    }

    [[nodiscard]] bool splitsWeight(const Op &op, const sharding::Signature &signature) const
    {
        for (std::size_t i = 0; i < op.inputs.size(); ++i)
            if (isOpenWeight(op.inputs[i]) && isSplit(signature.inputs[i]))
                return true;
        return false;
    }

    /// Bytes for one sample: inputs are converted, backward too, and sums of outputs are made whole;
    /// nothing if it is not possible.
    [[nodiscard]] std::optional<double> price(const Op &op, const sharding::Signature &signature,
                                              bool weightSplit) const
    {
        double bytes = 0;
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            const TensorId id = op.inputs[i];
            if (!id.valid())
                continue;
            const Sbp &want = signature.inputs[i];
            if (isPartial(want) || (isParameter(id) && pinOf(id) && pinOf(id)->back() != want))
                return std::nullopt;
            if (isParameter(id))
                continue;
            const auto size = static_cast<double>(m_graph.tensor(id).bytes().value());
            bytes += boxingBytes(layoutOf(id), want, size, m_parts);
            if (!m_graph.tensor(id).producer.valid())
                continue;
            if (weightSplit && isBroadcast(want)) // each device's gradient of it is a part of the sum
                bytes += boxingBytes(sharding::partial(), sharding::broadcast(), size, m_parts);
            if (isBroadcast(layoutOf(id)) && isSplit(want)) // the gradients of the slices are gathered
                bytes += boxingBytes(want, sharding::broadcast(), size, m_parts);
        }
        for (std::size_t i = 0; i < op.outputs.size(); ++i)
            if (op.outputs[i].valid() && isPartial(signature.outputs[i]))
                bytes += boxingBytes(sharding::partial(), sharding::broadcast(),
                                     static_cast<double>(m_graph.tensor(op.outputs[i]).bytes().value()), m_parts);
        return bytes;
    }

    [[nodiscard]] std::optional<sharding::Signature> best(const Op &op) const
    {
        sharding::OpAtHand at = sharding::atHand(m_graph, op, m_parts);
        for (const TensorId id : op.inputs)
            at.have.push_back(id.valid() ? layoutOf(id) : sharding::broadcast());
        std::optional<sharding::Signature> best;
        double least = 0;
        bool bestSplits = false;
        for (sharding::Signature &signature : sharding::signatures(at)) {
            signature.inputs.resize(op.inputs.size());
            signature.outputs.resize(op.outputs.size());
            const bool splits = splitsWeight(op, signature);
            const auto bytes = price(op, signature, splits);
            if (!bytes || (bestSplits && !splits))
                continue;
            if (best && splits == bestSplits && *bytes >= least)
                continue;
            best = std::move(signature);
            least = *bytes;
            bestSplits = splits;
        }
        return best;
    }

    void apply(const Op &op, const sharding::Signature &signature)
    {
        for (std::size_t i = 0; i < op.inputs.size(); ++i)
            if (isParameter(op.inputs[i]) && isSplit(signature.inputs[i]))
                m_pins[m_graph.tensor(op.inputs[i]).name] = {sharding::broadcast(), signature.inputs[i]};
        for (std::size_t i = 0; i < op.outputs.size(); ++i)
            if (op.outputs[i].valid())
                m_layouts[op.outputs[i]] =
                    isPartial(signature.outputs[i]) ? sharding::broadcast() : signature.outputs[i];
    }

    const graph::Graph &m_graph;
    int m_parts;
    Pins m_pins;
    std::map<TensorId, Sbp> m_layouts;
};

/// Pins of a model's attention and feed-forward layers, as far as they lie in @p range.
Pins layerPins(const graph::Graph &graph, const Range &range, int parts)
{
    sharding::MegatronOptions options;
    options.vocabularyParallel = true;
    Pins pins = sharding::megatronPins(graph, sharding::Mesh{{1, parts}}, options);
    std::set<std::string> inside;
    for (OpId id = range.first; id < range.last; id = OpId(id.value + 1)) {
        for (const auto *list : {&graph.op(id).inputs, &graph.op(id).outputs})
            for (const TensorId tensor : *list)
                if (tensor.valid())
                    inside.insert(graph.tensor(tensor).name);
    }
    std::erase_if(pins, [&](const auto &pin) { return !inside.contains(pin.first); });
    return pins;
}

double sentBytes(const Op &op, const graph::Graph &graph, int parts)
{
    const auto in = graph.tensor(op.inputs[0]).bytes().value();
    const graph::Collective collective = op.traits().collective;
    if (collective == graph::Collective::AllReduce)
        return static_cast<double>(cost::collectiveBytes(cost::Collective::AllReduce, in, parts));
    const auto piece = collective == graph::Collective::AllGather ? in : in / parts;
    return static_cast<double>(cost::collectiveBytes(cost::Collective::AllGather, piece, parts));
}

/// Shards the task graph by @p pins and counts; nothing if that is not possible or splits nothing.
std::optional<Patterns> measured(const graph::TrainingGraph &logical, Pins pins, int parts)
{
    sharding::Request request;
    request.mesh.sizes = {1, parts};
    request.pins = pins;
    request.inputs.assign(logical.inputs.size(), sharding::NdSbp(2));
    request.outputs.assign(logical.outputs.size(), sharding::NdSbp(2));
    const auto sharded = sharding::shard(logical, request);
    if (!sharded)
        return std::nullopt;
    Patterns patterns;
    double split = 0;
    double all = 0;
    for (const sharding::ParameterShare &share : sharded->parameters) {
        const auto elements = static_cast<double>(share.logical.elements(1));
        all += elements;
        split += isSplit(share.sbp.back()) ? elements : 0;
    }
    for (const Op &op : sharded->local.graph.ops())
        if (op.traits().communicates())
            patterns.bytes += sentBytes(op, sharded->local.graph, parts);
    patterns.pins = std::move(pins);
    patterns.splitShare = all > 0 ? split / all : 0;
    return split > 0 ? std::optional(std::move(patterns)) : std::nullopt;
}

class Chooser {
public:
    Chooser(const graph::Graph &graph, const Range &range, const graph::TrainingGraph &logical,
            const std::set<std::string> &whole)
        : m_graph(graph),
          m_range(range),
          m_logical(logical),
          m_whole(whole)
    {
    }

    [[nodiscard]] std::optional<Patterns> best(int parts, PatternChoice choice) const
    {
        std::optional<Patterns> best;
        for (const bool layers : {true, false}) {
            if (choice == (layers ? PatternChoice::Single : PatternChoice::Layers))
                continue;
            Pins pins = layers ? layerPins(m_graph, m_range, parts) : Pins();
            if (layers && pins.empty() && choice == PatternChoice::Least)
                continue;
            auto found = measured(m_logical, Walk(m_graph, parts, std::move(pins), m_whole).run(m_range), parts);
            if (found && (!best || found->bytes < best->bytes))
                best = std::move(found);
        }
        return best;
    }

private:
    const graph::Graph &m_graph;
    Range m_range;
    const graph::TrainingGraph &m_logical;
    const std::set<std::string> &m_whole;
};

} // namespace

std::set<std::string> sharedParameters(const graph::Graph &graph, const graph::LayerView &layers, std::size_t first,
                                       std::size_t last)
{
    std::set<std::string> shared;
    for (const graph::Tensor &tensor : graph.tensors()) {
        if (tensor.role != TensorRole::Parameter)
            continue;
        bool inside = false;
        bool elsewhere = false;
        for (const OpId reader : graph.consumers(tensor.id)) {
            const bool in = reader >= layers.layers[first].first && reader < layers.layers[last - 1].last;
            (in ? inside : elsewhere) = true;
        }
        if (inside && elsewhere)
            shared.insert(tensor.name);
    }
    return shared;
}

Result<Patterns> choosePatterns(const graph::Graph &graph, const graph::LayerView &layers, std::size_t first,
                                std::size_t last, int parts, PatternChoice choice, const std::string &scope,
                                const std::set<std::string> &whole)
{
    const std::vector<TensorId> none;
    const Range range{layers.layers[first].first, layers.layers[last - 1].last};
    const auto logical = graph::differentiate(graph, range.first, range.last, first > 0 ? layers.cuts[first] : none,
                                              last < layers.size() ? layers.cuts[last] : none);
    if (!logical)
        return unsupported(
            fmt::format("scope \"{}\" cannot be split: {}; replicate it", scope, logical.error().message));
    const Chooser chooser(graph, range, *logical, whole);
    if (auto found = chooser.best(parts, choice))
        return *std::move(found);
    for (int fewer = std::min(parts - 1, kMostSuggested); fewer > 1; --fewer)
        if (chooser.best(fewer, choice))
            return unsupported(
                fmt::format("scope \"{}\" cannot be split into {} parts, as no weight's sizes divide; split it into {}",
                            scope, parts, fewer));
    return unsupported(
        fmt::format("scope \"{}\" cannot be split into {} parts: it has no weights whose sizes divide; replicate it",
                    scope, parts));
}

} // namespace planloom::planners::whale
