// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/efficiency.h"

#include "engine/graph/operators/operators.h"

#include <algorithm>

namespace planloom::plan {
namespace {

/// The operators whose FLOPs papers count.
bool countsForMfu(graph::CostClass cost)
{
    switch (cost) {
    case graph::CostClass::Product:
    case graph::CostClass::Convolution:
    case graph::CostClass::Attention:
    case graph::CostClass::AttentionInPieces:
    case graph::CostClass::Computing: return true; // recurrent layers, grouped convolutions
    default: return false;
    }
}

double trainingFlops(const graph::Graph &graph)
{
    double flops = 0;
    for (const graph::Op &op : graph.ops()) {
        if (!countsForMfu(op.traits().cost))
            continue;
        const graph::OpCostFigures one = graph::figures(graph, op.id, 1);
        const graph::OpCostFigures two = graph::figures(graph, op.id, 2);
        flops += two.forward.value() - one.forward.value() + two.backward.value() - one.backward.value();
    }
    return flops;
}

/// Of inputs (N, T) by which rows of a parameter are looked up.
double longestSequence(const graph::Graph &graph)
{
    std::int64_t longest = 0;
    for (const graph::Op &op : graph.ops()) {
        if (op.type != "Gather" || op.inputs.size() < 2 || !op.inputs[0].valid() || !op.inputs[1].valid())
            continue;
        const graph::Tensor &table = graph.tensor(op.inputs[0]);
        const graph::Tensor &rows = graph.tensor(op.inputs[1]);
        if (table.role == graph::TensorRole::Parameter && rows.role == graph::TensorRole::Input
            && rows.shape.rank() == 2 && rows.shape[0].batch && !rows.shape[1].batch)
            longest = std::max(longest, rows.shape[1].size);
    }
    return longest > 1 ? static_cast<double>(longest) : 0;
}

} // namespace

ModelWork modelWork(const Document &document)
{
    const Plan &plan = document.plan;
    const cluster::Cluster &cluster = *document.subject.cluster;
    ModelWork work;
    work.tokensPerSample = longestSequence(*document.subject.graph);
    if (!plan.admm && !plan.job)
        work.flopsPerSample = trainingFlops(*document.subject.graph);
    const std::vector<DeviceId> devices = devicesOf(plan);
    const auto hasPeak = [&](DeviceId id) { return cluster.typeOf(id).peakFlops.contains("bfloat16"); };
    work.precision =
        plan.precision == Precision::BFloat16 && std::ranges::all_of(devices, hasPeak) ? "bfloat16" : "float32";
    for (const DeviceId id : devices) {
        const auto &peaks = cluster.typeOf(id).peakFlops;
        const auto peak = peaks.find(work.precision);
        work.peakFlops += peak == peaks.end() ? 0 : peak->second;
    }
    return work;
}

Efficiency efficiencyOf(const ModelWork &work, double samplesPerSecond)
{
    Efficiency efficiency;
    efficiency.tokensPerSecond = work.tokensPerSample * samplesPerSecond;
    if (work.flopsPerSample > 0 && work.peakFlops > 0 && samplesPerSecond > 0) {
        efficiency.mfu = work.flopsPerSample * samplesPerSecond / work.peakFlops;
        efficiency.precision = work.precision;
    }
    return efficiency;
}

} // namespace planloom::plan
