// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/gradients/differentiate.h"
#include "executor/device/operator_cases.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

// An operator's case with its gradients.
namespace planloom::cases {

/// Around one operator: every input x_i comes in from an earlier part; the loss is sum_k <w_k, y_k> + sum_i <v_i, x_i>,
/// with fixed random w and v, so that every element of every gradient is its own number.
struct TrainedCase {
    std::optional<graph::TrainingGraph> part;
    std::vector<Array> inputs;        ///< one per entry of part->inputs
    std::map<std::string, Array> fed; ///< other inputs of the part, by name
    std::string problem;
};

class TrainedCaseBuilder {
public:
    explicit TrainedCaseBuilder(const Case &c) : m_case(c), m_builder("case") {}

    TrainedCase build()
    {
        if (auto status = outputInfos(); !status) {
            m_made.problem = status.error().text();
            return std::move(m_made);
        }
        addInputs();
        const OpId firstOp(
            static_cast<std::int64_t>(m_incoming.size())); // each incoming tensor is made by one operator
        const std::vector<TensorId> outputs = addOperator();
        addLoss(outputs);
        auto whole = std::move(m_builder).build();
        if (!whole) {
            m_made.problem = whole.error().text();
            return std::move(m_made);
        }
        auto part =
            graph::differentiate(*whole, firstOp, OpId(static_cast<std::int64_t>(whole->ops().size())), m_incoming, {});
        if (!part)
            m_made.problem = part.error().text();
        else
            m_made.part = std::move(*part);
        return std::move(m_made);
    }

private:
    /// Shapes and types of the outputs, as inference gives them.
    Status outputInfos()
    {
        graph::GraphBuilder builder("shapes");
        std::vector<TensorId> inputs;
        for (std::size_t i = 0; i < m_case.inputs.size(); ++i)
            inputs.push_back(m_case.inputs[i].present ? builder.input("x" + std::to_string(i), m_case.inputs[i].type,
                                                                      m_case.inputs[i].shape())
                                                      : TensorId{});
        std::vector<TensorId> outputs;
        for (int i = 0; i < m_case.outputs; ++i)
            outputs.push_back(builder.activation("y" + std::to_string(i)));
        builder.addOp(m_case.type, "op", {}, inputs, outputs, m_case.attributes);
        auto graph = std::move(builder).build();
        if (!graph)
            return graph.error();
        for (int i = 0; i < m_case.outputs; ++i)
            m_outputs.push_back(graph->tensor(graph->find("y" + std::to_string(i))));
        return {};
    }

    /// A trained input is a parameter and a graph input added up outside the part, so that it is an activation that may
    /// carry the batch.
    void addInputs()
    {
        const TensorId parameter =
            m_builder.parameter("p", graph::Shape(), {graph::Initializer::Kind::Zeros, 0, 0, nullptr, {}, 0});
        for (std::size_t i = 0; i < m_case.inputs.size(); ++i) {
            const Input &input = m_case.inputs[i];
            const std::string name = "x" + std::to_string(i);
            if (!input.present) {
                m_inputs.emplace_back();
                continue;
            }
            if (input.type != DType::F32 || !input.trained) {
                m_inputs.push_back(m_builder.input(name, input.type, input.shape()));
                m_made.fed[name] = valuesOf(input, i + 1);
                continue;
            }
            addIncoming(name, input, parameter, i + 1);
            m_inputs.push_back(m_incoming.back());
        }
        if (m_incoming.empty()) // something must be trained
            addIncoming("extra", real({2}), parameter, 99);
    }

    void addIncoming(const std::string &name, const Input &input, TensorId parameter, std::uint64_t seed)
    {
        const TensorId raw = m_builder.input("raw/" + name, DType::F32, input.shape());
        m_incoming.push_back(m_builder.add("Add", {raw, parameter}, {}, name));
        m_incomingShapes.push_back(input.shape());
        m_made.inputs.push_back(valuesOf(input, seed));
    }

    std::vector<TensorId> addOperator()
    {
        std::vector<TensorId> outputs;
        for (int i = 0; i < m_case.outputs; ++i)
            outputs.push_back(m_builder.activation("y" + std::to_string(i)));
        m_builder.addOp(m_case.type, "op", {}, m_inputs, outputs, m_case.attributes);
        return outputs;
    }

    void addLoss(const std::vector<TensorId> &outputs)
    {
        TensorId loss;
        const std::size_t counted =
            std::string(m_case.type) == "Split" ? outputs.size() : static_cast<std::size_t>(m_case.trainedOutputs);
        for (std::size_t k = 0; k < counted; ++k) {
            const TensorId y = m_outputs[k].type == DType::F32
                ? outputs[k]
                : m_builder.add("Cast", {outputs[k]}, {{"to", std::string("float32")}});
            loss = plusWeighted(loss, y, m_outputs[k].shape, "w" + std::to_string(k));
        }
        for (std::size_t i = 0; i < m_incoming.size(); ++i)
            loss = plusWeighted(loss, m_incoming[i], m_incomingShapes[i], "v" + std::to_string(i));
        m_builder.loss(loss);
    }

    TensorId plusWeighted(TensorId sum, TensorId x, const graph::Shape &shape, const std::string &name)
    {
        const TensorId weight = m_builder.input(name, DType::F32, shape);
        m_made.fed[name] = valuesOf(real(shape.at(kSamples)), 1000 + m_made.fed.size());
        const TensorId term =
            m_builder.add("ReduceSum", {m_builder.add("Mul", {x, weight})}, {{"keepdims", std::int64_t{0}}});
        return sum.valid() ? m_builder.add("Add", {sum, term}) : term;
    }

    const Case &m_case;
    graph::GraphBuilder m_builder;
    std::vector<graph::Tensor> m_outputs;
    std::vector<TensorId> m_inputs;
    std::vector<TensorId> m_incoming;
    std::vector<graph::Shape> m_incomingShapes;
    TrainedCase m_made;
};

/// Constants, and everything that is fed.
inline Values startValues(const TrainedCase &trained)
{
    const graph::Graph &graph = trained.part->graph;
    Values values(graph.tensors().size());
    for (const graph::Tensor &tensor : graph.tensors()) {
        if (tensor.role == graph::TensorRole::Constant)
            values[tensor.id.index()] = fromBytes(tensor.type, tensor.shape.at(kSamples), tensor.init.data->data());
    }
    for (const auto &[name, array] : trained.fed) {
        if (graph.find(name).valid())
            values[graph.find(name).index()] = array;
    }
    for (std::size_t i = 0; i < trained.inputs.size(); ++i)
        values[trained.part->inputs[i].index()] = trained.inputs[i];
    return values;
}

/// Inputs of both passes; the loss counts once.
inline void feed(const TrainedCase &trained, const Values &values, Machine &machine)
{
    for (const graph::Tensor &tensor : trained.part->graph.tensors()) {
        if (tensor.role == graph::TensorRole::Input && !values[tensor.id.index()].values.empty())
            machine.set(tensor.id, values[tensor.id.index()]);
    }
    Array one((Dims()));
    one[0] = 1;
    machine.set(trained.part->lossGradient, one);
}

} // namespace planloom::cases
