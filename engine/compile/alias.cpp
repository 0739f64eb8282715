// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/alias.h"

#include <algorithm>

namespace planloom::compile {
namespace {

using graph::Op;
using graph::TensorRole;

} // namespace

Aliases::Aliases(const graph::TrainingGraph &training, std::int64_t samples)
    : m_training(training),
      m_samples(samples),
      m_leaves(training.graph.tensors().size(), false),
      m_parent(training.graph.tensors().size()),
      m_members(training.graph.tensors().size())
{
    for (const auto *ids : {&training.outputs, &training.inputGradients})
        for (const TensorId id : *ids)
            if (id.valid())
                m_leaves[id.index()] = true;
    if (training.loss.valid())
        m_leaves[training.loss.index()] = true;
    for (const Op &op : training.graph.ops())
        place(op);
    for (const graph::Tensor &tensor : training.graph.tensors())
        m_members[home(tensor.id).root.index()].push_back(tensor.id);
}

void Aliases::place(const Op &op)
{
    const auto offset = [&](const std::vector<std::int64_t> &offsets, std::size_t i, TensorId part) {
        return offsets[i] * graph::sizeOf(m_training.graph.tensor(part).type);
    };
    const graph::Storage storage = op.traits().storage;
    if (storage == graph::Storage::Own)
        return;
    const std::vector<std::int64_t> offsets = op.integers("offsets");
    switch (storage) {
    case graph::Storage::Own: break;
    case graph::Storage::View: view(op.outputs.front(), op.inputs.front(), 0); break;
    case graph::Storage::Parts:
        for (std::size_t i = 0; i < op.outputs.size(); ++i)
            view(op.outputs[i], op.inputs.front(), offset(offsets, i, op.outputs[i]));
        break;
    case graph::Storage::Whole:
        for (std::size_t i = 0; i < op.inputs.size(); ++i)
            if (op.inputs[i].valid())
                hold(op.outputs.front(), op.inputs[i], offset(offsets, i, op.inputs[i]));
        break;
    case graph::Storage::InPlace: reduceInPlace(op); break;
    }
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

/// Lets @p part be made where it belongs in @p whole, if no other tensor has its memory.
void Aliases::hold(TensorId whole, TensorId part, std::int64_t offset)
{
    const Home home = this->home(part);
    const graph::Tensor &root = m_training.graph.tensor(home.root);
    const bool free = root.role == TensorRole::Activation && home.offset == 0 && bytes(home.root) == bytes(part)
        && !leaves(home.root) && root.producer.index() >= m_training.forwardOps;
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

} // namespace planloom::compile
