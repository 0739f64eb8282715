// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/rewrite/fuse_batch_norm.h"

#include "engine/graph/rewrite/rewrite.h"

#include <algorithm>
#include <map>
#include <optional>

namespace planloom::graph {
namespace {

/// Operators that become one, and those of their gradients. Absent ones are nullptr.
struct BatchNormFusion {
    const Op *norm = nullptr;
    const Op *relu = nullptr;
    const Op *add = nullptr; ///< between the two
    TensorId residual;       ///< the other summand of `add`
    const Op *reluGrad = nullptr;
    const Op *normGrad = nullptr;
    const Op *sum = nullptr; ///< AddN of two gradients that only `reluGrad` reads
};

class Finder {
public:
    explicit Finder(const TrainingGraph &training)
        : m_training(training),
          m_graph(training.graph),
          m_leaves(training.graph.tensors().size())
    {
        for (const auto *list : {&training.outputs, &training.inputGradients, &training.gradients})
            for (const TensorId id : *list)
                if (id.valid())
                    m_leaves[id.index()] = true;
        for (const TensorId id : m_graph.outputs())
            m_leaves[id.index()] = true;
    }

    [[nodiscard]] std::vector<BatchNormFusion> find() const
    {
        std::vector<BatchNormFusion> found;
        std::vector<bool> taken(m_graph.ops().size());
        for (std::size_t i = 0; i < m_training.forwardOps; ++i) {
            const Op &op = m_graph.ops()[i];
            const auto fusion = op.type == "Relu" ? around(op) : std::nullopt;
            if (!fusion || taken[fusion->norm->id.index()])
                continue;
            taken[fusion->norm->id.index()] = true;
            found.push_back(*fusion);
        }
        return found;
    }

private:
    /// The operator that makes @p id if @p reader alone reads it.
    [[nodiscard]] const Op *onlyFor(TensorId id, const Op &reader) const
    {
        const Tensor &tensor = m_graph.tensor(id);
        const auto readers = m_graph.consumers(id);
        const bool alone =
            tensor.producer.valid() && !m_leaves[id.index()] && readers.size() == 1 && readers.front() == reader.id;
        return alone ? &m_graph.op(tensor.producer) : nullptr;
    }

    [[nodiscard]] std::optional<BatchNormFusion> around(const Op &relu) const
    {
        BatchNormFusion fusion;
        fusion.relu = &relu;
        const Op *before = onlyFor(relu.inputs[0], relu);
        if (before != nullptr && before->type == "Add")
            before = acrossAdd(*before, fusion);
        if (before == nullptr || before->type != "BatchNormalization" || before->integer("training_mode", 1) == 0
            || before->inputs.size() != 5)
            return std::nullopt;
        fusion.norm = before;
        if (!findGradients(fusion))
            return std::nullopt;
        return fusion;
    }

    const Op *acrossAdd(const Op &add, BatchNormFusion &fusion) const
    {
        for (std::size_t i = 0; i < 2; ++i) {
            const Op *norm = onlyFor(add.inputs[i], add);
            const TensorId other = add.inputs[1 - i];
            const bool fits = norm != nullptr && norm->type == "BatchNormalization"
                && m_graph.tensor(other).shape == m_graph.tensor(add.inputs[i]).shape;
            if (!fits)
                continue;
            fusion.add = &add;
            fusion.residual = other;
            return norm;
        }
        return nullptr;
    }

    /// False if the backward pass is not the one that the forward operators should have.
    bool findGradients(BatchNormFusion &fusion) const
    {
        const TensorId x = fusion.norm->inputs[0];
        for (const OpId reader : m_graph.consumers(x)) {
            const Op &op = m_graph.op(reader);
            if (op.type == "BatchNormalizationGrad" && op.inputs[1] == x && op.inputs[3] == fusion.norm->outputs[1])
                fusion.normGrad = &op;
        }
        if (fusion.normGrad == nullptr)
            return m_training.forwardOps == m_graph.ops().size();
        const TensorId g = fusion.normGrad->inputs[0];
        const OpId maker = m_graph.tensor(g).producer;
        if (!maker.valid() || m_graph.op(maker).type != "ReluGrad"
            || m_graph.op(maker).inputs[1] != fusion.relu->outputs[0])
            return false;
        fusion.reluGrad = &m_graph.op(maker);
        if (fusion.add == nullptr && onlyFor(g, *fusion.normGrad) == nullptr)
            return false;
        const Op *sum = onlyFor(fusion.reluGrad->inputs[0], *fusion.reluGrad);
        if (sum != nullptr && sum->type == "AddN" && sum->inputs.size() == 2)
            fusion.sum = sum;
        return true;
    }

    const TrainingGraph &m_training;
    const Graph &m_graph;
    std::vector<bool> m_leaves; ///< per tensor: read from outside
};

void writeForward(Rewriter &rewriter, const BatchNormFusion &fusion)
{
    const Op &norm = *fusion.norm;
    std::vector<TensorId> inputs;
    for (const TensorId id : norm.inputs)
        inputs.push_back(rewriter.to(id));
    if (fusion.add != nullptr)
        inputs.push_back(rewriter.to(fusion.residual));
    Attributes attributes = norm.attributes;
    attributes["relu"] = std::int64_t{1};
    rewriter.replace(norm.type, norm.name, std::move(inputs), std::move(attributes), norm,
                     {fusion.relu->outputs[0], norm.outputs[1], norm.outputs[2]});
}

void writeBackward(Rewriter &rewriter, const BatchNormFusion &fusion)
{
    const Op &grad = *fusion.normGrad;
    const TensorId first = fusion.sum != nullptr ? fusion.sum->inputs[0] : fusion.reluGrad->inputs[0];
    std::vector<TensorId> inputs{rewriter.to(first)};
    for (std::size_t i = 1; i < 5; ++i)
        inputs.push_back(rewriter.to(grad.inputs[i]));
    inputs.push_back(rewriter.to(fusion.norm->inputs[2]));
    inputs.push_back(fusion.add != nullptr ? rewriter.to(fusion.relu->outputs[0]) : TensorId());
    inputs.push_back(fusion.sum != nullptr ? rewriter.to(fusion.sum->inputs[1]) : TensorId());
    std::vector<TensorId> outputs{grad.outputs[0], grad.outputs[1], grad.outputs[2]};
    if (fusion.add != nullptr)
        outputs.push_back(fusion.reluGrad->outputs[0]);
    Attributes attributes = grad.attributes;
    attributes["relu"] = std::int64_t{1};
    rewriter.replace(grad.type, grad.name, std::move(inputs), std::move(attributes), grad, outputs);
}

} // namespace

Result<TrainingGraph> fuseBatchNormalization(TrainingGraph training)
{
    const std::vector<BatchNormFusion> fusions = Finder(training).find();
    if (fusions.empty())
        return training;
    std::vector<bool> gone(training.graph.ops().size());
    std::map<OpId, const BatchNormFusion *> forwardAt; // by the operator in whose place the fused one stands
    std::map<OpId, const BatchNormFusion *> backwardAt;
    for (const BatchNormFusion &fusion : fusions) {
        for (const Op *op : {fusion.norm, fusion.relu, fusion.add, fusion.reluGrad, fusion.normGrad, fusion.sum})
            if (op != nullptr)
                gone[op->id.index()] = true;
        forwardAt[fusion.relu->id] = &fusion;
        if (fusion.reluGrad != nullptr)
            backwardAt[fusion.reluGrad->id] = &fusion;
    }
    Rewriter rewriter(training);
    for (const Op &op : training.graph.ops()) {
        if (op.id.index() == training.forwardOps)
            rewriter.beginBackward();
        if (const auto found = forwardAt.find(op.id); found != forwardAt.end())
            writeForward(rewriter, *found->second);
        else if (const auto back = backwardAt.find(op.id); back != backwardAt.end())
            writeBackward(rewriter, *back->second);
        else if (!gone[op.id.index()])
            rewriter.copy(op);
    }
    if (training.forwardOps == training.graph.ops().size())
        rewriter.beginBackward();
    return std::move(rewriter).finish();
}

} // namespace planloom::graph
