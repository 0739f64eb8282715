// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/rewrite/split_backward.h"

#include "engine/graph/rewrite/rewrite.h"

namespace planloom::graph {
namespace {

/// Per operator: whether it is a backward one that an input's gradient depends on.
std::vector<bool> neededByInputs(const TrainingGraph &training)
{
    std::vector<bool> needed(training.graph.ops().size(), false);
    std::vector<TensorId> open = training.inputGradients;
    while (!open.empty()) {
        const TensorId id = open.back();
        open.pop_back();
        const OpId producer = id.valid() ? training.graph.tensor(id).producer : OpId();
        if (!producer.valid() || producer.index() < training.forwardOps || needed[producer.index()])
            continue;
        needed[producer.index()] = true;
        const Op &op = training.graph.op(producer);
        open.insert(open.end(), op.inputs.begin(), op.inputs.end());
    }
    return needed;
}

} // namespace

Result<TrainingGraph> splitBackward(const TrainingGraph &training)
{
    const std::vector<bool> first = neededByInputs(training);
    const auto ops = training.graph.ops();
    Rewriter rewriter(training);
    for (std::size_t i = 0; i < training.forwardOps; ++i)
        rewriter.copy(ops[i]);
    rewriter.beginBackward();
    std::size_t weightOps = 0;
    for (const bool needed : {true, false}) {
        for (std::size_t i = training.forwardOps; i < ops.size(); ++i) {
            if (first[i] != needed)
                continue;
            rewriter.copy(ops[i]);
            weightOps += needed ? 0 : 1;
        }
    }
    auto made = std::move(rewriter).finish();
    if (made)
        made->weightOps = weightOps;
    return made;
}

} // namespace planloom::graph
