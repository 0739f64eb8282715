// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/rewrite/rewrite.h"

#include "engine/graph/gradients/stash.h"

namespace planloom::graph {

Rewriter::Rewriter(const TrainingGraph &from)
    : m_from(from),
      m_builder(from.graph.name()),
      m_to(from.graph.tensors().size())
{
}

TensorId Rewriter::to(TensorId id)
{
    if (!id.valid() || mapped(id))
        return id.valid() ? m_to[id.index()] : id;
    const Tensor &tensor = old().tensor(id);
    TensorId &made = m_to[id.index()];
    switch (tensor.role) {
    case TensorRole::Input: made = m_builder.input(tensor.name, tensor.type, tensor.shape); break;
    case TensorRole::Parameter: made = m_builder.parameter(tensor.name, tensor.shape, tensor.init, tensor.type); break;
    case TensorRole::State: made = m_builder.state(tensor.name, tensor.shape, tensor.init, tensor.type); break;
    case TensorRole::Constant:
        made = m_builder.constant(tensor.name, tensor.type, tensor.shape, *tensor.init.data);
        break;
    case TensorRole::Activation: made = m_builder.activation(tensor.name, tensor.type); break;
    }
    m_builder.setLayout(made, tensor.layout);
    return made;
}

void Rewriter::map(TensorId id, TensorId made) { m_to[id.index()] = made; }

void Rewriter::copy(const Op &op) { copy(op, op.attributes); }

void Rewriter::copy(const Op &op, Attributes attributes)
{
    std::vector<TensorId> inputs;
    for (const TensorId input : op.inputs)
        inputs.push_back(to(input));
    copy(op, std::move(attributes), std::move(inputs));
}

void Rewriter::copy(const Op &op, Attributes attributes, std::vector<TensorId> inputs)
{
    std::vector<TensorId> outputs;
    for (const TensorId output : op.outputs)
        outputs.push_back(to(output));
    m_builder.addOp(op.type, op.name, op.scope, std::move(inputs), std::move(outputs), std::move(attributes));
    ++m_added;
}

void Rewriter::add(const std::string &type, const std::string &name, const std::string &scope,
                   std::vector<TensorId> inputs, std::vector<TensorId> outputs, Attributes attributes)
{
    m_builder.addOp(type, name, scope, std::move(inputs), std::move(outputs), std::move(attributes));
    ++m_added;
}

TensorId Rewriter::emit(const std::string &type, std::vector<TensorId> inputs, Attributes attributes, const Op &like)
{
    return emit(type, std::move(inputs), std::move(attributes), like, 1).front();
}

std::vector<TensorId> Rewriter::emit(const std::string &type, std::vector<TensorId> inputs, Attributes attributes,
                                     const Op &like, std::size_t outputs)
{
    const std::string name = like.name + "~" + type + std::to_string(m_fresh++);
    std::vector<TensorId> made;
    for (std::size_t i = 0; i < outputs; ++i)
        made.push_back(m_builder.activation(i == 0 ? name : name + ":" + std::to_string(i)));
    m_builder.addOp(type, name, like.scope, std::move(inputs), made, std::move(attributes));
    ++m_added;
    return made;
}

std::vector<TensorId> Rewriter::replace(const std::string &type, const std::string &name, std::vector<TensorId> inputs,
                                        Attributes attributes, const Op &like, const std::vector<TensorId> &outputs)
{
    std::vector<TensorId> made;
    for (std::size_t i = 0; i < outputs.size(); ++i)
        made.push_back(outputs[i].valid() ? to(outputs[i]) : m_builder.activation(name + ":" + std::to_string(i)));
    m_builder.addOp(type, name, like.scope, std::move(inputs), made, std::move(attributes));
    ++m_added;
    return made;
}

Result<TrainingGraph> Rewriter::finish() &&
{
    const auto mapAll = [this](const std::vector<TensorId> &ids) {
        std::vector<TensorId> made;
        for (const TensorId id : ids)
            made.push_back(to(id));
        return made;
    };
    TrainingGraph result;
    result.forwardOps = m_forwardOps;
    result.inputs = mapAll(m_from.inputs);
    result.outputs = mapAll(m_from.outputs);
    result.outputGradients = mapAll(m_from.outputGradients);
    result.inputGradients = mapAll(m_from.inputGradients);
    result.parameters = mapAll(m_from.parameters);
    result.gradients = mapAll(m_from.gradients);
    result.loss = to(m_from.loss);
    result.lossGradient = to(m_from.lossGradient);
    for (const TensorId output : m_from.graph.outputs())
        m_builder.output(to(output));
    if (result.loss.valid() && m_from.graph.loss().valid())
        m_builder.loss(result.loss);
    Result<Graph> built = std::move(m_builder).build();
    if (!built)
        return built.error();
    result.graph = std::move(*built);
    result.stash = findStash(result.graph, result.forwardOps);
    return result;
}

} // namespace planloom::graph
