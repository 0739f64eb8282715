// SPDX-License-Identifier: Apache-2.0
#include "planners/common/memory.h"

#include "engine/graph/gradients/differentiate.h"
#include "engine/graph/layer_profile.h"
#include "engine/graph/rewrite/precision.h"
#include "engine/compile/stage_model.h"
#include "planners/common/balance.h"

#include <fmt/format.h>

#include <algorithm>

namespace planloom::planners {
namespace {

constexpr double kHalfCopy = 0.5; ///< of float32 weights: the bfloat16 ones that operators read

double bytesPerSample(const graph::Tensor &tensor) { return static_cast<double>(tensor.bytes(1).value()); }

/// All that the layer's operators make: the bound where differentiation does not know them.
double madeBytes(const graph::Graph &graph, const graph::Layer &layer)
{
    double bytes = 0;
    for (OpId op = layer.first; op < layer.last; op = OpId(op.value + 1))
        for (const TensorId output : graph.op(op).outputs)
            if (output.valid())
                bytes += bytesPerSample(graph.tensor(output));
    return bytes;
}

/// Tensors that a layer's backward pass reads, and the largest tensor that its forward pass makes, in bytes of a
/// sample.
struct LayerBytes {
    double kept = 0;
    double largest = 0;
};

/// The largest output of operators [first, last).
double largestBytes(const graph::Graph &graph, std::size_t first, std::size_t last)
{
    double largest = 0;
    for (std::size_t op = first; op < last; ++op)
        for (const TensorId output : graph.ops()[op].outputs)
            if (output.valid())
                largest = std::max(largest, bytesPerSample(graph.tensor(output)));
    return largest;
}

LayerBytes layerBytes(const graph::Graph &graph, const graph::LayerView &layers, std::size_t index, bool half)
{
    const graph::Layer &layer = layers.layers[index];
    LayerBytes bytes{madeBytes(graph, layer), largestBytes(graph, layer.first.index(), layer.last.index())};
    if (graph.op(layer.first).traits().cost == graph::CostClass::Measured) {
        if (graph::worksInPlace(graph.op(layer.first)))
            bytes.kept = 0;
        return bytes;
    }
    const std::vector<TensorId> outgoing = index + 1 < layers.size() ? layers.cuts[index + 1] : std::vector<TensorId>{};
    Result<graph::TrainingGraph> training =
        graph::differentiate(graph, layer.first, layer.last, layers.cuts[index], outgoing);
    if (training && half)
        training = graph::toBFloat16(*training);
    if (!training)
        return bytes;
    bytes.kept = 0;
    for (const TensorId kept : training->stash)
        bytes.kept += bytesPerSample(training->graph.tensor(kept));
    if (half)
        bytes.largest = largestBytes(training->graph, 0, training->forwardOps);
    return bytes;
}

} // namespace

MemoryModel::MemoryModel(const cost::CostModel &costs, const plan::Optimizer &optimizer, double reserve)
    : m_costs(&costs),
      m_isProfile(graph::isLayerProfile(costs.graph())),
      m_copies(2.0 + optimizer.rule.footprint().states + (costs.half() && !m_isProfile ? kHalfCopy : 0)),
      m_reserve(reserve)
{
    const graph::Graph &graph = costs.graph();
    const graph::LayerView &layers = costs.layers();
    m_kept.push_back(0);
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const LayerBytes bytes = layerBytes(graph, layers, i, costs.half());
        m_kept.push_back(m_kept.back() + bytes.kept);
        m_cut.push_back(static_cast<double>(layers.cutBytes(graph, i, 1).value()));
        m_largest.push_back(bytes.largest);
        m_gradient.push_back(static_cast<double>(costs.parameterBytes(i, i + 1).value()));
    }
    m_cut.push_back(0);
}

double MemoryModel::persistent(std::size_t first, std::size_t last) const
{
    return m_copies * static_cast<double>(m_costs->parameterBytes(first, last).value());
}

StageFootprint MemoryModel::footprint(std::size_t first, std::size_t last, double samples, bool recompute) const
{
    const auto range = [&](const std::vector<double> &values) {
        return *std::max_element(values.begin() + static_cast<std::ptrdiff_t>(first),
                                 values.begin() + static_cast<std::ptrdiff_t>(last));
    };
    constexpr double kSlots = 2; // a transfer and a pass at a time
    const double kept = (m_kept[last] - m_kept[first]) * samples;
    const double input = m_cut[first] * samples;
    const double output = m_cut[last] * samples;
    StageFootprint footprint;
    footprint.fixed = persistent(first, last) + range(m_gradient) + 2 * range(m_largest) * samples;
    footprint.fixed += kSlots * (input + output) + 2 * input; // gradients; the inbox's head start
    if (recompute || !m_isProfile)
        footprint.fixed += kSlots * output;
    footprint.perMicroBatch = input + (recompute ? 0 : kept);
    if (recompute)
        footprint.fixed += kept;
    return footprint;
}

double MemoryModel::usable(DeviceId device) const
{
    return static_cast<double>(m_costs->cluster().typeOf(device).memory.value()) * (1 - m_reserve);
}

MemoryLimit limitOf(const plan::Plan &plan, const plan::Subject &subject, const simulate::Report &report,
                    double reserve)
{
    MemoryLimit worst;
    for (const simulate::DeviceReport &device : report.devices) {
        const MemoryLimit each{"", subject.cluster->find(device.id), static_cast<double>(device.peakBytes),
                               static_cast<double>(device.capacityBytes) * (1 - reserve)};
        if (!worst.device.valid() || each.factor() > worst.factor())
            worst = each;
    }
    for (const plan::Stage &stage : plan.stages)
        if (std::find(stage.devices.begin(), stage.devices.end(), worst.device) != stage.devices.end())
            worst.holds += fmt::format("{}{} (layers {} to {})", worst.holds.empty() ? "" : ", ", stage.name,
                                       stage.firstLayer, stage.lastLayer);
    return worst;
}

std::optional<MemoryLimit> leastMemory(const cost::CostModel &costs, const MemoryModel &memory, double samples,
                                       bool recompute)
{
    constexpr std::size_t kMostCuts = 20'000'000; // visited by the search below within a second
    const auto devices = costs.cluster().devices();
    const std::size_t layers = costs.layers().size();
    const std::size_t parts = std::min(layers, devices.size());
    if (parts * layers * layers > kMostCuts)
        return std::nullopt;
    const auto limit = [&](std::size_t index, std::size_t first, std::size_t last) {
        const StageFootprint footprint = memory.footprint(first, last, samples, recompute);
        return MemoryLimit{fmt::format("stage {} (layers {} to {})", index, first, last), devices[index].id,
                           footprint.fixed + footprint.perMicroBatch, memory.usable(devices[index].id)};
    };
    const auto factor = [&](std::size_t index, std::size_t first, std::size_t last) {
        const StageFootprint footprint = memory.footprint(first, last, samples, recompute);
        return (footprint.fixed + footprint.perMicroBatch) / std::max(1.0, memory.usable(devices[index].id));
    };
    const std::vector<std::size_t> cuts = balancedCuts(layers, parts, factor);
    MemoryLimit worst;
    for (std::size_t i = 0; i < parts; ++i) {
        MemoryLimit each = limit(i, i == 0 ? 0 : cuts[i - 1], i < cuts.size() ? cuts[i] : layers);
        if (!worst.device.valid() || each.factor() > worst.factor())
            worst = std::move(each);
    }
    return worst;
}

MemoryLimit spreadMemory(const cost::CostModel &costs, const MemoryModel &memory, const std::vector<DeviceId> &devices)
{
    double room = 0;
    for (const DeviceId device : devices)
        room += memory.usable(device);
    const std::size_t layers = costs.layers().size();
    const double usable = memory.usable(devices.front());
    return {fmt::format("its part of weights, gradients and optimizer state of all {} layers, spread over {} devices",
                        layers, devices.size()),
            devices.front(), memory.persistent(0, layers) * usable / room, usable};
}

Error memoryBinds(const cluster::Cluster &cluster, const MemoryLimit &limit, const std::string &more)
{
    const auto bytes = [](double value) { return format(Bytes(static_cast<std::int64_t>(value))); };
    return infeasible(
        fmt::format("no plan fits: the memory of device {} ({}) is too small{}: {} needed{} and {} usable, {} short",
                    cluster.device(limit.device).name, cluster.typeOf(limit.device).name,
                    limit.holds.empty() ? "" : " for " + limit.holds, bytes(limit.needed), more, bytes(limit.usable),
                    bytes(std::max(0.0, limit.needed - limit.usable))));
}

} // namespace planloom::planners
