// SPDX-License-Identifier: Apache-2.0
#include "engine/program/stage_model.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace planloom::program {
namespace {

using graph::TensorRole;

void hold(const graph::Tensor &tensor, StageHoldings &holdings)
{
    const HeldTensor held{tensor.id, tensor.name, tensor.bytes(1).value()};
    if (tensor.role == TensorRole::Parameter)
        holdings.parameters.push_back(held);
    else if (tensor.role == TensorRole::State || tensor.role == TensorRole::Constant)
        holdings.others.push_back(held);
}

StageHoldings holdingsOf(const graph::TrainingGraph &training)
{
    StageHoldings holdings;
    for (const TensorId id : training.parameters)
        hold(training.graph.tensor(id), holdings);
    for (const graph::Tensor &tensor : training.graph.tensors())
        if (tensor.role != TensorRole::Parameter)
            hold(tensor, holdings);
    return holdings;
}

StageHoldings holdingsOf(const graph::Graph &graph, OpId first, OpId last)
{
    StageHoldings holdings;
    std::set<TensorId> seen;
    for (OpId op = first; op < last; op = OpId(op.value + 1))
        for (const TensorId id : graph.op(op).inputs)
            if (id.valid() && seen.insert(id).second)
                hold(graph.tensor(id), holdings);
    return holdings;
}

} // namespace

bool isLayerProfile(const graph::Graph &graph)
{
    return std::any_of(graph.ops().begin(), graph.ops().end(), [](const graph::Op &op) { return op.type == "ProfiledLayer"; });
}

Result<StageModel> StageModel::make(const plan::Plan &plan, const plan::Subject &subject, StageId stage, bool mustRun)
{
    StageModel model;
    model.m_subject = &subject;
    model.m_stage = plan.stages[stage.index()];
    const graph::LayerView &layers = subject.layers();
    const OpId first = layers.layers[model.m_stage.firstLayer].first;
    const OpId last = layers.layers[model.m_stage.lastLayer - 1].last;
    const std::vector<TensorId> none;
    const auto &incoming = model.m_stage.firstLayer > 0 ? layers.cuts[model.m_stage.firstLayer] : none;
    const auto &outgoing = model.m_stage.lastLayer < layers.size() ? layers.cuts[model.m_stage.lastLayer] : none;
    if (mustRun || !isLayerProfile(*subject.graph)) {
        auto training = graph::differentiate(*subject.graph, first, last, incoming, outgoing);
        if (!training && (mustRun || training.error().code != ErrorCode::Unsupported))
            return training.error();
        if (training)
            model.m_training = *std::move(training);
    }
    model.m_holdings = model.m_training ? holdingsOf(*model.m_training) : holdingsOf(*subject.graph, first, last);
    return model;
}

const StageLayout &StageModel::layout(double samples)
{
    const double key = m_training ? std::ceil(samples) : samples;
    const auto found = m_layouts.find(key);
    if (found != m_layouts.end())
        return found->second;
    StageLayout made;
    if (m_training)
        made = layoutStage(*m_training, static_cast<std::int64_t>(key), m_stage.recompute);
    else
        made.slotBytes = estimateSlots(*m_subject->graph, m_subject->layers(), m_stage.firstLayer, m_stage.lastLayer, key, m_stage.recompute);
    return m_layouts.emplace(key, std::move(made)).first->second;
}

bool StageModel::returnsGradient() { return layout(1).slotBytes[static_cast<std::size_t>(Area::GradientInbox)] > 0; }

} // namespace planloom::program
