// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/stage_template.h"

#include "engine/compile/pooled.h"
#include "engine/graph/operators/operators.h"

#include <algorithm>
#include <utility>

namespace planloom::compile {
namespace {

/// True if @p op changes its input @p input, which stays from step to step, when it runs forward: running statistics.
bool tracksState(const graph::Op &op, std::size_t input)
{
    return op.traits().isState(input) && op.integer("training_mode", 1) != 0;
}

} // namespace

StageTemplate::StageTemplate(const graph::TrainingGraph &training, const StageLayout &layout, std::int64_t samples,
                             const std::vector<const LocalParameter *> &hosted)
    : m_training(training),
      m_layout(layout),
      m_samples(samples),
      m_aliases(training, samples),
      m_rootIndex(training.graph.tensors().size(), -1)
{
    const std::vector<bool> pooled = pooledRoots(training, m_aliases);
    for (const graph::Tensor &tensor : training.graph.tensors())
        if (pooled[tensor.id.index()])
            addRoot(tensor);
    activations = roots.size();
    for (const LocalParameter *parameter : hosted)
        addRoot(training.graph.tensor(parameter->id));
    lastUse.assign(roots.size(), -1);
    lastForwardUse.assign(roots.size(), -1);
    firstArgument.push_back(0);
    for (const graph::Op &op : training.graph.ops())
        add(op);
    findRecomputable();
}

void StageTemplate::addRoot(const graph::Tensor &tensor)
{
    m_rootIndex[tensor.id.index()] = static_cast<std::int32_t>(roots.size());
    roots.push_back(tensor.id);
    bytes.push_back(aligned(tensor.bytes(m_samples).value()));
}

void StageTemplate::add(const graph::Op &op)
{
    Uses made;
    for (const TensorId id : op.inputs)
        if (id.valid() && rootOf(id) >= 0)
            note(made.inputs, rootOf(id), op.id);
    for (const TensorId id : op.outputs) {
        const std::int32_t root = id.valid() ? rootOf(id) : -1;
        if (root < 0)
            continue;
        const bool makes = m_training.graph.tensor(roots[static_cast<std::size_t>(root)]).producer == op.id;
        note(makes ? made.outputs : made.inputs, root, op.id);
    }
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
        argument(made, op.inputs[i],
                 op.inputs[i].valid() && tracksState(op, i)
                     && m_training.graph.tensor(op.inputs[i]).role == graph::TensorRole::State);
    for (const TensorId id : op.outputs)
        argument(made, id, id.valid() && isTransient(id));
    firstArgument.push_back(static_cast<std::int32_t>(arguments.size()));
    uses.push_back(std::move(made));
}

void StageTemplate::note(std::vector<std::int32_t> &list, std::int32_t root, OpId op)
{
    if (std::find(list.begin(), list.end(), root) == list.end())
        list.push_back(root);
    lastUse[static_cast<std::size_t>(root)] = op.value;
    if (op.index() < m_training.forwardOps)
        lastForwardUse[static_cast<std::size_t>(root)] = op.value;
}

void StageTemplate::argument(Uses &of, TensorId id, bool besides)
{
    StageMemory::Argument made;
    const std::int32_t root = id.valid() ? rootOf(id) : -1;
    if (root >= 0) {
        const auto in = std::find(of.inputs.begin(), of.inputs.end(), root);
        const auto at = in != of.inputs.end() ? in - of.inputs.begin()
                                              : std::find(of.outputs.begin(), of.outputs.end(), root)
                - of.outputs.begin() + static_cast<std::ptrdiff_t>(of.inputs.size());
        made.storage = static_cast<std::int32_t>(at);
        made.root = root;
        made.offset = m_aliases.home(id).offset;
    } else if (besides) {
        made.scratch = of.scratch;
        of.scratch += aligned(m_training.graph.tensor(id).bytes(m_samples).value());
    }
    arguments.push_back(made);
}

/// True if the place of @p id may hold something else by the time of the backward pass, or of that for gradients of
/// weights, before which the frame goes to another micro-batch.
bool StageTemplate::isTransient(TensorId id) const
{
    const Area area = m_layout.forwardPlaces[id.index()].area;
    return area == Area::Workspace || area == Area::Outbox || (area == Area::Frame && m_training.weightOps > 0);
}

/// An operator can run again if all that it reads is there until the end of the backward pass or can be made again.
void StageTemplate::findRecomputable()
{
    recomputable.assign(roots.size(), false);
    std::fill(recomputable.begin() + static_cast<std::ptrdiff_t>(activations), recomputable.end(), true);
    for (std::size_t o = 0; o < m_training.forwardOps; ++o) {
        const graph::Op &op = m_training.graph.ops()[o];
        const bool can =
            !op.traits().communicates() && std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorId id) {
                if (!id.valid())
                    return true;
                const std::int32_t root = rootOf(id);
                return root >= 0 ? recomputable[static_cast<std::size_t>(root)] : !isTransient(id);
            });
        for (const std::int32_t root : uses[o].outputs)
            recomputable[static_cast<std::size_t>(root)] = can;
    }
}

} // namespace planloom::compile
