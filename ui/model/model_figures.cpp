// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/model_figures.h"

#include "engine/graph/operators/operators.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace planloom::ui {
namespace {

/// Bytes of what @p op writes for @p samples samples.
double writtenBytes(const graph::Graph &graph, const graph::Op &op, std::int64_t samples)
{
    std::int64_t bytes = 0;
    if (op.traits().storage == graph::Storage::View)
        return 0;
    for (const TensorId output : op.outputs) {
        if (output.valid())
            bytes += graph.tensor(output).bytes(samples).value();
    }
    return static_cast<double>(bytes);
}

std::int64_t largestSlice(const plan::Plan &plan, const plan::Stage &stage)
{
    const auto slices = plan::replicaSizes(stage, plan::microBatchRange(plan, 0).size);
    return slices.empty() ? 0 : *std::ranges::max_element(slices);
}

/// Types of the stage's devices, each once.
std::vector<std::size_t> typesOf(const plan::Subject &subject, const plan::Stage &stage)
{
    std::vector<std::size_t> types;
    for (const DeviceId device : stage.devices) {
        const std::size_t type = subject.cluster->device(device).type;
        if (std::ranges::find(types, type) == types.end())
            types.push_back(type);
    }
    return types;
}

} // namespace

ModelFigures::ModelFigures(std::shared_ptr<const graph::Graph> graph, DocumentPtr document, const ModelFigures *before)
    : m_graph(std::move(graph)),
      m_document(std::move(document))
{
    if (before != nullptr && before->m_graph == m_graph)
        m_perSample = before->m_perSample;
    else
        measure();
    if (!m_document)
        return;
    const auto &costs = m_document->subject.costs;
    if (before != nullptr && before->m_document && before->m_document->subject.costs == costs)
        m_times = before->m_times;
    else
        m_times = std::make_shared<const cost::OperatorTimes>(*costs);
    predict();
}

void ModelFigures::measure()
{
    auto all = std::make_shared<std::vector<PerSample>>();
    all->reserve(m_graph->ops().size());
    for (const graph::Op &op : m_graph->ops()) {
        const graph::OpCostFigures one = graph::figures(*m_graph, op.id, 1);
        const graph::OpCostFigures two = graph::figures(*m_graph, op.id, 2);
        all->push_back({cost::Affine::through(one.forward.value(), two.forward.value()),
                        cost::Affine::through(one.backward.value(), two.backward.value()),
                        cost::Affine::through(writtenBytes(*m_graph, op, 1), writtenBytes(*m_graph, op, 2))});
    }
    m_perSample = std::move(all);
}

void ModelFigures::predict()
{
    m_stageOf.assign(m_graph->ops().size(), -1);
    m_forward.assign(m_graph->ops().size(), 0);
    m_backward.assign(m_graph->ops().size(), 0);
    const std::vector<plan::Stage> &stages = m_document->plan.stages;
    for (std::size_t s = 0; s < stages.size(); ++s) {
        m_samples.push_back(largestSlice(m_document->plan, stages[s]));
        const graph::LayerView &layers = m_document->subject.layers();
        const auto last = std::min(stages[s].lastLayer, layers.size());
        const std::vector<std::size_t> types = typesOf(m_document->subject, stages[s]);
        for (std::size_t layer = stages[s].firstLayer; layer < last; ++layer) {
            for (OpId op = layers.layers[layer].first; op < layers.layers[layer].last; ++op.value)
                predict(op, s, types);
        }
    }
}

void ModelFigures::predict(OpId op, std::size_t stage, const std::vector<std::size_t> &types)
{
    const plan::Plan &plan = m_document->plan;
    const auto samples = static_cast<double>(m_samples[stage]);
    const double shards = plan.admm ? 1.0 : static_cast<double>(plan.stages[stage].shards()); // ADMM: ranges of steps
    m_stageOf[op.index()] = static_cast<int>(stage);
    for (const std::size_t type : types) {
        const double forward = m_times->forward(op, samples, type).value() / shards;
        const double backward = plan.admm ? 0 : m_times->backward(op, samples, type).value() / shards;
        m_forward[op.index()] = std::max(m_forward[op.index()], forward);
        m_backward[op.index()] = std::max(m_backward[op.index()], backward);
    }
}

BoxFigures ModelFigures::of(std::span<const OpId> ops) const
{
    BoxFigures sum;
    double bytes = 0;
    std::unordered_set<TensorId> parameters;
    const bool half = m_document && m_document->subject.costs->half();
    for (const OpId id : ops) {
        const int stage = m_stageOf.empty() ? -1 : m_stageOf[id.index()];
        const auto samples =
            static_cast<double>(samplesOf(stage < 0 ? std::nullopt : std::optional(static_cast<std::size_t>(stage))));
        const PerSample &each = (*m_perSample)[id.index()];
        sum.forwardFlops += each.forward.at(samples);
        sum.backwardFlops += each.backward.at(samples);
        const graph::Op &op = m_graph->op(id);
        const bool halved = half && !op.outputs.empty() && op.outputs[0].valid()
            && m_graph->tensor(op.outputs[0]).type == graph::DType::F32;
        bytes += each.bytes.at(samples) * (halved ? 0.5 : 1);
        if (!m_forward.empty()) {
            sum.forwardSeconds += m_forward[id.index()];
            sum.backwardSeconds += m_backward[id.index()];
        }
        for (const TensorId input : op.inputs) {
            if (!input.valid() || m_graph->tensor(input).role != graph::TensorRole::Parameter
                || !parameters.insert(input).second)
                continue;
            sum.parameterBytes += m_graph->tensor(input).bytes().value();
            sum.parameters += m_graph->tensor(input).shape.elements(1);
        }
    }
    sum.activationBytes = static_cast<std::int64_t>(bytes);
    return sum;
}

std::int64_t ModelFigures::samplesOf(std::optional<std::size_t> stage) const
{
    return stage && *stage < m_samples.size() ? m_samples[*stage] : 1;
}

std::vector<std::size_t> ModelFigures::stagesOf(std::span<const OpId> ops) const
{
    std::vector<std::size_t> stages;
    for (const OpId op : ops) {
        const int stage = m_stageOf.empty() ? -1 : m_stageOf[op.index()];
        if (stage >= 0 && (stages.empty() || stages.back() != static_cast<std::size_t>(stage)))
            stages.push_back(static_cast<std::size_t>(stage));
    }
    std::ranges::sort(stages);
    const auto rest = std::ranges::unique(stages);
    stages.erase(rest.begin(), rest.end());
    return stages;
}

} // namespace planloom::ui
