// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/pooled.h"

namespace planloom::compile {

std::vector<bool> pooledRoots(const graph::TrainingGraph &training, const Aliases &aliases)
{
    std::vector<bool> pooled(training.graph.tensors().size(), false);
    for (const graph::Tensor &tensor : training.graph.tensors())
        pooled[tensor.id.index()] = aliases.home(tensor.id).root == tensor.id
            && tensor.role == graph::TensorRole::Activation && tensor.producer.valid()
            && tensor.producer.index() < training.forwardOps;
    const auto keepOut = [&](TensorId id) {
        if (id.valid())
            pooled[aliases.home(id).root.index()] = false;
    };
    for (const auto *ids : {&training.inputs, &training.outputs, &training.outputGradients, &training.inputGradients})
        for (const TensorId id : *ids)
            keepOut(id);
    keepOut(training.loss);
    for (const graph::Op &op : training.graph.ops())
        if (op.traits().communicates())
            for (const auto *ids : {&op.inputs, &op.outputs})
                for (const TensorId id : *ids)
                    keepOut(id);
    return pooled;
}

} // namespace planloom::compile
