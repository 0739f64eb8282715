// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/gradients/differentiate.h"

#include "engine/graph/gradients/stash.h"
#include "engine/graph/operators/backward.h"
#include "engine/graph/operators/operators.h"

#include <algorithm>
#include <set>

namespace planloom::graph {
namespace {

bool isFloat(DType type)
{
    return type == DType::F32 || type == DType::F16 || type == DType::BF16 || type == DType::F64;
}

/// Unknown types are taken to pass gradients on: that they cannot is an error where it matters, not a silent zero.
bool mayFlow(const Op &op, std::size_t input)
{
    const Gradient *rule = gradientOf(op.type);
    return op.inputs[input].valid() && (rule ? rule->reaches(input) : true);
}

/// Which tensors of the whole graph depend on a parameter and reach the loss.
std::vector<bool> tensorsThatTrain(const Graph &graph, const std::vector<TensorId> &outgoing)
{
    std::vector<bool> depends(graph.tensors().size(), false);
    for (const TensorId parameter : graph.withRole(TensorRole::Parameter))
        depends[parameter.index()] = isFloat(graph.tensor(parameter).type);
    for (const Op &op : graph.ops()) {
        bool any = false;
        for (std::size_t i = 0; i < op.inputs.size(); ++i)
            any = any || (mayFlow(op, i) && depends[op.inputs[i].index()]);
        for (const TensorId output : op.outputs)
            depends[output.index()] = any && isFloat(graph.tensor(output).type);
    }
    std::vector<bool> reaches(graph.tensors().size(), false);
    if (graph.loss().valid()) {
        reaches[graph.loss().index()] = true;
    } else {
        for (const TensorId output : outgoing)
            reaches[output.index()] = true;
    }
    for (auto op = graph.ops().rbegin(); op != graph.ops().rend(); ++op) {
        const bool any =
            std::any_of(op->outputs.begin(), op->outputs.end(), [&](TensorId id) { return reaches[id.index()]; });
        for (std::size_t i = 0; any && i < op->inputs.size(); ++i)
            if (mayFlow(*op, i))
                reaches[op->inputs[i].index()] = true;
    }
    std::vector<bool> both(depends.size());
    for (std::size_t i = 0; i < both.size(); ++i)
        both[i] = depends[i] && reaches[i];
    return both;
}

/// Builds the TrainingGraph of one part.
class Part {
public:
    Part(const Graph &graph, OpId first, OpId last, const std::vector<TensorId> &incoming,
         const std::vector<TensorId> &outgoing)
        : m_graph(graph),
          m_ops(graph.ops().subspan(first.index(), last.index() - first.index())),
          m_incoming(incoming),
          m_outgoing(outgoing),
          m_trains(tensorsThatTrain(graph, outgoing)),
          m_toPart(graph.tensors().size()),
          m_builder(graph.name()),
          m_backward(graph, m_builder, m_toPart, m_trains)
    {
    }

    Result<TrainingGraph> build()
    {
        for (const auto step : {&Part::forward, &Part::check, &Part::backward})
            if (const Status done = (this->*step)(); !done)
                return done.error();
        Result<Graph> graph = std::move(m_builder).build();
        if (!graph)
            return graph.error();
        m_part.graph = std::move(*graph);
        m_part.stash = findStash(m_part.graph, m_part.forwardOps);
        return std::move(m_part);
    }

private:
    Status forward()
    {
        for (const TensorId id : m_incoming)
            if (!m_toPart[id.index()].valid()) {
                const Tensor &tensor = m_graph.tensor(id);
                m_toPart[id.index()] = m_builder.input(tensor.name, tensor.type, tensor.shape);
            }
        for (const Op &op : m_ops) {
            std::vector<TensorId> inputs;
            std::vector<TensorId> outputs;
            for (const TensorId input : op.inputs) {
                if (input.valid() && !copied(input))
                    return badInput("operator '" + op.name + "' reads '" + m_graph.tensor(input).name
                                    + "', which does not come into this part; add it to the cut");
                inputs.push_back(input.valid() ? m_toPart[input.index()] : TensorId{});
            }
            for (const TensorId output : op.outputs) {
                const Tensor &tensor = m_graph.tensor(output);
                m_toPart[output.index()] = m_builder.activation(tensor.name, tensor.type, tensor.shape, true);
                outputs.push_back(m_toPart[output.index()]);
            }
            m_builder.addOp(op.type, op.name, op.scope, std::move(inputs), std::move(outputs), op.attributes);
        }
        m_part.forwardOps = m_ops.size();
        return nameEnds();
    }

    /// Makes a fixed tensor or graph input known to the part at its first use. False for an activation from outside.
    bool copied(TensorId id)
    {
        if (m_toPart[id.index()].valid())
            return true;
        const Tensor &tensor = m_graph.tensor(id);
        switch (tensor.role) {
        case TensorRole::Input:
            m_toPart[id.index()] = m_builder.input(tensor.name, tensor.type, tensor.shape);
            return true;
        case TensorRole::Parameter:
            m_toPart[id.index()] = m_builder.parameter(tensor.name, tensor.shape, tensor.init, tensor.type);
            m_parameters.push_back(id);
            return true;
        case TensorRole::State:
            m_toPart[id.index()] = m_builder.state(tensor.name, tensor.shape, tensor.init, tensor.type);
            return true;
        case TensorRole::Constant:
            m_toPart[id.index()] = m_builder.constant(tensor.name, tensor.type, tensor.shape, *tensor.init.data);
            return true;
        case TensorRole::Activation: break;
        }
        return false;
    }

    Status nameEnds()
    {
        for (const TensorId id : m_incoming)
            m_part.inputs.push_back(m_toPart[id.index()]);
        for (const TensorId id : m_outgoing) {
            if (!m_toPart[id.index()].valid())
                return badInput("'" + m_graph.tensor(id).name
                                + "' leaves this part, but neither comes in nor is made in it; correct the cut");
            m_part.outputs.push_back(m_toPart[id.index()]);
            m_builder.output(m_part.outputs.back());
        }
        const TensorId loss = m_graph.loss();
        if (loss.valid() && m_toPart[loss.index()].valid()) {
            m_part.loss = m_toPart[loss.index()];
            m_builder.loss(m_part.loss);
        }
        return {};
    }

    [[nodiscard]] bool trains(TensorId id) const { return id.valid() && m_trains[id.index()]; }

    /// Whether the gradient of @p op is needed in this part.
    [[nodiscard]] bool active(const Op &op) const
    {
        if (std::none_of(op.outputs.begin(), op.outputs.end(), [&](TensorId id) { return trains(id); }))
            return false;
        for (std::size_t i = 0; i < op.inputs.size(); ++i)
            if (mayFlow(op, i) && trains(op.inputs[i]))
                return true;
        return false;
    }

    Status check()
    {
        std::set<std::string> unknown;
        bool measured = false;
        const Op *example = nullptr;
        for (const Op &op : m_ops) {
            if (!active(op))
                continue;
            const Gradient *rule = gradientOf(op.type);
            const bool several = !(rule && rule->everyOutput)
                && std::any_of(op.outputs.begin() + 1, op.outputs.end(), [&](TensorId id) { return trains(id); });
            if (several)
                return unsupported("operator '" + op.name + "' (" + op.type
                                   + ") cannot be trained through its second output; use the first only");
            if (rule)
                continue;
            unknown.insert(op.type.name());
            measured = measured || op.traits().cost == CostClass::Measured;
            example = example ? example : &op;
        }
        if (!example)
            return {};
        std::string types;
        for (const std::string &type : unknown)
            types += (types.empty() ? "" : ", ") + type;
        return unsupported("operator '" + example->name + "' (" + example->type
                           + ") has no gradient, so the model cannot be trained; types like it in this part: " + types
                           + (measured ? " (a layer profile can be planned and simulated only)" : ""));
    }

    void expectContributions()
    {
        for (const Op &op : m_ops)
            for (std::size_t i = 0; active(op) && i < op.inputs.size(); ++i)
                if (mayFlow(op, i) && trains(op.inputs[i]))
                    m_backward.expect(op.inputs[i]);
    }

    Status backward()
    {
        expectContributions();
        if (m_part.loss.valid() && trains(m_graph.loss()))
            m_part.lossGradient = m_backward.feed(m_graph.loss());
        for (const TensorId id : m_outgoing)
            m_part.outputGradients.push_back(trains(id) ? m_backward.feed(id) : TensorId{});
        for (auto op = m_ops.rbegin(); op != m_ops.rend(); ++op) {
            if (!active(*op))
                continue;
            m_backward.begin(*op);
            const auto &fed = op->outputs;
            if (std::any_of(fed.begin(), fed.end(), [&](TensorId id) { return m_backward.total(id).valid(); }))
                gradientOf(op->type)->backward(m_backward);
            if (m_backward.refused())
                return unsupported("operator '" + op->name + "' (" + op->type
                                   + ") cannot be trained: " + m_backward.refusal());
            closeParameters(*op);
        }
        for (const TensorId id : m_incoming)
            m_part.inputGradients.push_back(trains(id) ? m_backward.total(id) : TensorId{});
        for (const TensorId id : m_parameters) {
            m_part.parameters.push_back(m_toPart[id.index()]);
            m_part.gradients.push_back(trains(id) ? m_backward.total(id, true) : TensorId{});
        }
        return {};
    }

    /// Sums the gradients of parameters that no earlier operator of this part reads: they are complete now.
    void closeParameters(const Op &op)
    {
        for (const TensorId input : op.inputs) {
            if (!trains(input) || m_graph.tensor(input).role != TensorRole::Parameter)
                continue;
            const auto readers = m_graph.consumers(input);
            const auto first = std::find_if(readers.begin(), readers.end(),
                                            [&](OpId id) { return id >= m_ops.front().id && active(m_graph.op(id)); });
            if (first != readers.end() && *first == op.id)
                m_backward.total(input, true);
        }
    }

    const Graph &m_graph;
    std::span<const Op> m_ops;
    const std::vector<TensorId> &m_incoming;
    const std::vector<TensorId> &m_outgoing;
    std::vector<bool> m_trains;
    std::vector<TensorId> m_toPart;
    std::vector<TensorId> m_parameters;
    GraphBuilder m_builder;
    Backward m_backward;
    TrainingGraph m_part;
};

} // namespace

Result<TrainingGraph> differentiate(const Graph &graph, OpId first, OpId last, const std::vector<TensorId> &incoming,
                                    const std::vector<TensorId> &outgoing)
{
    const auto count = static_cast<std::int32_t>(graph.ops().size());
    if (!first.valid() || last.value > count || first >= last)
        return badInput("a part of model '" + graph.name() + "' must hold at least one of its " + std::to_string(count)
                        + " operators");
    return Part(graph, first, last, incoming, outgoing).build();
}

} // namespace planloom::graph
