// SPDX-License-Identifier: Apache-2.0
#include "planners/oneflow/space.h"

#include "planners/oneflow/space_data.h"

#include <algorithm>

namespace planloom::planners::oneflow {

using graph::Op;
using graph::Tensor;
using graph::TensorRole;
using sharding::isBroadcast;
using sharding::isPartial;
using sharding::Sbp;
using sharding::Signature;

LineSpace::LineSpace(const graph::TrainingGraph &logical, LineSetting setting)
{
    auto data = std::make_unique<SpaceData>();
    data->logical = logical;
    data->setting = std::move(setting);
    buildSpace(*data);
    m_data = std::move(data);
}

LineSpace::~LineSpace() = default;
LineSpace::LineSpace(LineSpace &&) noexcept = default;

ChoiceGraph LineSpace::graph(double secondsPerByte) const
{
    const auto weigh = [secondsPerByte](const std::vector<Price> &prices) {
        std::vector<double> costs;
        for (const Price &price : prices)
            costs.push_back(price.seconds + secondsPerByte * price.memory);
        return costs;
    };
    ChoiceGraph graph;
    for (const std::vector<Price> &node : m_data->nodes)
        graph.add(weigh(node));
    for (const SpaceData::Edge &edge : m_data->edges)
        graph.connect(edge.a, edge.b, weigh(edge.prices));
    return graph;
}

Price LineSpace::priceOf(const std::vector<int> &states) const
{
    Price sum;
    const auto state = [&](int node) { return static_cast<std::size_t>(states[static_cast<std::size_t>(node)]); };
    for (std::size_t n = 0; n < m_data->nodes.size(); ++n)
        sum += m_data->nodes[n][state(static_cast<int>(n))];
    for (const SpaceData::Edge &edge : m_data->edges)
        sum += edge.prices[state(edge.a) * m_data->nodes[static_cast<std::size_t>(edge.b)].size() + state(edge.b)];
    return sum;
}

std::map<std::string, Sbp> LineSpace::pins(const std::vector<int> &states) const
{
    std::map<std::string, Sbp> found;
    for (std::size_t t = 0; t < m_data->tensors.size(); ++t) {
        const Tensor &tensor = m_data->tensor(t);
        const TensorChoice &own = m_data->tensorChoice(t);
        if (own.pin >= 0)
            found[tensor.name] = own.layouts[static_cast<std::size_t>(states[static_cast<std::size_t>(own.pin)])];
        else if (tensor.role == TensorRole::Activation && tensor.id != m_data->logical.loss) {
            const OpChoice &made = m_data->choiceOf(tensor.producer.index());
            const auto &outputs = m_data->op(tensor.producer.index()).outputs;
            const auto slot = std::find(outputs.begin(), outputs.end(), tensor.id) - outputs.begin();
            const Sbp &layout = made.signatures[static_cast<std::size_t>(states[static_cast<std::size_t>(made.node)])]
                                    .outputs[static_cast<std::size_t>(slot)];
            if (!m_data->parameterOf[t].valid() || isPartial(layout))
                found[tensor.name] = layout;
        }
    }
    for (std::size_t i = 0; i < m_data->logical.gradients.size(); ++i) // those of split parameters lie as these do
        if (const TensorId gradient = m_data->logical.gradients[i];
            gradient.valid() && isBroadcast(found.at(m_data->tensor(m_data->logical.parameters[i].index()).name)))
            found.emplace(m_data->tensor(gradient.index()).name, sharding::broadcast());
    return found;
}

std::vector<std::string> LineSpace::differing(const std::vector<int> &states,
                                              const std::map<std::string, Sbp> &chosen) const
{
    std::vector<std::string> names;
    for (std::size_t o = 0; o < m_data->ops.size(); ++o) {
        const OpChoice &own = m_data->choiceOf(o);
        const Signature &signature =
            own.signatures[static_cast<std::size_t>(states[static_cast<std::size_t>(own.node)])];
        const Op &op = m_data->op(o);
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            const auto made = chosen.find(m_data->tensor(op.outputs[i].index()).name);
            if (made == chosen.end() || made->second == signature.outputs[i])
                continue;
            names.push_back(op.name);
            break;
        }
    }
    return names;
}

std::size_t LineSpace::operators() const { return m_data->ops.size(); }

} // namespace planloom::planners::oneflow
