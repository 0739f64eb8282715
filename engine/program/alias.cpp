// SPDX-License-Identifier: Apache-2.0
#include "engine/program/alias.h"

#include <algorithm>
#include <string_view>

namespace planloom::program {
namespace {

using graph::Op;
using graph::TensorRole;

bool isView(std::string_view type)
{
    return type == "Reshape" || type == "Flatten" || type == "Squeeze" || type == "Unsqueeze" || type == "Identity";
}

} // namespace

Aliases::Aliases(const graph::TrainingGraph &training, std::int64_t samples)
    : m_training(training), m_samples(samples), m_leaves(training.graph.tensors().size(), false), m_parent(training.graph.tensors().size()),
      m_members(training.graph.tensors().size())
{
    for (const auto *ids : {&training.outputs, &training.inputGradients})
        for (const TensorId id : *ids)
            if (id.valid())
                m_leaves[id.index()] = true;
    if (training.loss.valid())
        m_leaves[training.loss.index()] = true;
    for (const Op &op : training.graph.ops()) {
        if (isView(op.type))
            view(op.outputs.front(), op.inputs.front(), 0);
        const std::vector<std::int64_t> offsets = op.integers("offsets");
        for (std::size_t i = 0; op.type == "Unpack" && i < op.outputs.size(); ++i)
            view(op.outputs[i], op.inputs.front(), offsets[i] * graph::sizeOf(training.graph.tensor(op.outputs[i]).type));
        for (std::size_t i = 0; op.type == "Pack" && i < op.inputs.size(); ++i)
            if (op.inputs[i].valid())
                hold(op.outputs.front(), op.inputs[i], offsets[i] * graph::sizeOf(training.graph.tensor(op.inputs[i]).type));
        if (op.type == "AllReduce")
            reduceInPlace(op);
    }
    for (const graph::Tensor &tensor : training.graph.tensors())
        m_members[home(tensor.id).root.index()].push_back(tensor.id);
}

Aliases::Home Aliases::home(TensorId id) const
{
    Home home{id, 0};
    while (m_parent[home.root.index()].root.valid()) {
        const Home &up = m_parent[home.root.index()];
        home = {up.root, home.offset + up.offset};
    }
    return home;
}

std::int64_t Aliases::bytes(TensorId id) const { return m_training.graph.tensor(id).bytes(m_samples).value(); }

void Aliases::view(TensorId output, TensorId input, std::int64_t offset)
{
    const graph::Tensor &from = m_training.graph.tensor(input);
    const graph::Tensor &to = m_training.graph.tensor(output);
    const bool fits = from.type == to.type && from.layout == to.layout && offset + bytes(output) <= bytes(input);
    if (!leaves(output) && fits)
        m_parent[output.index()] = {input, offset};
}

/// Lets @p part be made where it belongs in @p whole, if its memory is nobody else's.
void Aliases::hold(TensorId whole, TensorId part, std::int64_t offset)
{
    const Home home = this->home(part);
    const graph::Tensor &root = m_training.graph.tensor(home.root);
    const bool free = root.role == TensorRole::Activation && home.offset == 0 && bytes(home.root) == bytes(part) && !leaves(home.root)
        && root.producer.index() >= m_training.forwardOps;
    if (free && !leaves(whole) && home.root != this->home(whole).root)
        m_parent[home.root.index()] = {whole, offset};
}

void Aliases::reduceInPlace(const Op &op)
{
    const TensorId input = op.inputs.front();
    const graph::Tensor &tensor = m_training.graph.tensor(input);
    const bool own = tensor.role == TensorRole::Activation && !m_parent[input.index()].root.valid() && !leaves(input)
        && m_training.graph.consumers(input).size() == 1;
    if (own)
        view(op.outputs.front(), input, 0);
}

} // namespace planloom::program
