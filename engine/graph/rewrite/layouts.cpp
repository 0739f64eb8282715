// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/rewrite/layouts.h"

#include "engine/graph/rewrite/rewrite.h"

#include <algorithm>

namespace planloom::graph {
namespace {

constexpr std::int64_t kBlock = 16; ///< channels come in multiples of the longest block, so that both block lengths fit
constexpr std::size_t kChannels = 1;

/// More than one pixel: with one, rows and blocks are the same bytes.
bool isImage(const Tensor &tensor)
{
    const Shape &shape = tensor.shape;
    return shape.rank() == 4 && tensor.role != TensorRole::Parameter && (shape[2].size > 1 || shape[3].size > 1);
}

bool canBlock(const Tensor &tensor)
{
    const Shape &shape = tensor.shape;
    return tensor.role == TensorRole::Activation && (tensor.type == DType::F32 || tensor.type == DType::BF16)
        && isImage(tensor) && shape[0].batch && shape[kChannels].size % kBlock == 0 && shape[kChannels].size > 0;
}

/// Whether the kernel of a blocked operator would compute with these attributes and shapes.
bool fitsBlocks(const Graph &graph, const Op &op)
{
    const Shape &out = graph.tensor(op.outputs.front()).shape;
    if (op.type == "MaxPool")
        return op.outputs.size() == 1;
    if (op.type == "Concat")
        return op.integer("axis") == static_cast<std::int64_t>(kChannels);
    if (op.type == "Slice") {
        const auto ones = op.integers("steps", {1});
        const auto starts = op.integers("starts");
        return op.integers("axes") == std::vector<std::int64_t>{1} && ones == std::vector<std::int64_t>{1}
        && starts.size() == 1 && starts.front() >= 0 && starts.front() % kBlock == 0;
    }
    if (op.traits().elementWise != ElementWise::Computes)
        return true;
    return std::all_of(op.inputs.begin(), op.inputs.end(),
                       [&](TensorId input) { return graph.tensor(input).shape == out; });
}

class LayoutChooser {
public:
    explicit LayoutChooser(const TrainingGraph &from)
        : m_rewriter(from),
          m_graph(from.graph),
          m_other(from.graph.tensors().size()),
          m_blocked(from.graph.tensors().size()),
          m_done(from.graph.ops().size())
    {
        m_leaves.resize(from.graph.tensors().size());
        for (const auto *list : {&from.outputs, &from.inputGradients, &from.gradients})
            markAll(*list);
        for (const TensorId id : from.graph.outputs())
            m_leaves[id.index()] = true;
    }

    Result<TrainingGraph> choose() &&
    {
        for (const Op &op : m_graph.ops()) {
            if (op.id.index() == m_rewriter.from().forwardOps)
                m_rewriter.beginBackward();
            if (m_done[op.id.index()])
                continue;
            if (computesInBlocks(op))
                writeBlocked(op);
            else
                writeRows(op);
        }
        if (m_rewriter.from().forwardOps == m_graph.ops().size())
            m_rewriter.beginBackward();
        return std::move(m_rewriter).finish();
    }

private:
    void markAll(const std::vector<TensorId> &ids)
    {
        for (const TensorId id : ids)
            if (id.valid())
                m_leaves[id.index()] = true;
    }

    [[nodiscard]] bool mayBeBlocked(TensorId id) const { return canBlock(m_graph.tensor(id)) && !m_leaves[id.index()]; }

    [[nodiscard]] bool computesInBlocks(const Op &op) const
    {
        const OpTraits &traits = op.traits();
        if (traits.blocked == Blocked::No || !fitsBlocks(m_graph, op))
            return false;
        const bool convolution = traits.isConvolution();
        bool wanted = traits.blocked == Blocked::Begins;
        for (const TensorId id : op.inputs) {
            if (!id.valid() || !isImage(m_graph.tensor(id)))
                continue;
            if (!canBlock(m_graph.tensor(id)) && !convolution)
                return false;
            wanted = wanted || m_blocked[id.index()];
        }
        const auto images = [&](TensorId id) { return id.valid() && isImage(m_graph.tensor(id)); };
        // A convolution can hand rows out; others compute in one layout only.
        return wanted && (convolution || std::all_of(op.outputs.begin(), op.outputs.end(), [&](TensorId id) {
                              return !images(id) || mayBeBlocked(id);
                          }));
    }

    void writeBlocked(const Op &op)
    {
        std::vector<TensorId> inputs;
        for (const TensorId id : op.inputs)
            inputs.push_back(id.valid() && canBlock(m_graph.tensor(id)) ? as(id, true, op) : as(id, false, op));
        std::vector<TensorId> outputs;
        for (const TensorId id : op.outputs) {
            outputs.push_back(id);
            if (!id.valid() || op.traits().cost == CostClass::ConvolutionWeightGradient || !mayBeBlocked(id))
                continue;
            m_blocked[id.index()] = true;
            m_rewriter.builder().setLayout(m_rewriter.to(id), Layout::Blocked);
        }
        if (op.traits().cost == CostClass::ConvolutionWeightGradient)
            addBiasGradient(op, outputs);
        m_rewriter.replace(op.type, op.name, std::move(inputs), op.attributes, op, outputs);
    }

    /// The sum over dY that is the bias's gradient costs nothing on the way to the weight's.
    void addBiasGradient(const Op &gradWeight, std::vector<TensorId> &outputs)
    {
        const std::vector<std::int64_t> allButChannels{0, 2, 3};
        for (const OpId reader : m_graph.consumers(gradWeight.inputs[0])) {
            const Op &op = m_graph.op(reader);
            if (op.type != "ReduceSum" || op.id.value < gradWeight.id.value || op.integer("keepdims", 1) != 0
                || op.integers("axes") != allButChannels)
                continue;
            outputs.push_back(op.outputs[0]);
            m_done[op.id.index()] = true;
            return;
        }
    }

    void writeRows(const Op &op)
    {
        std::vector<TensorId> inputs;
        for (const TensorId id : op.inputs)
            inputs.push_back(as(id, false, op));
        m_rewriter.replace(op.type, op.name, std::move(inputs), op.attributes, op, op.outputs);
    }

    /// @p id in the layout that is wanted, from a Reorder if it lies in the other; one serves all readers.
    TensorId as(TensorId id, bool blocked, const Op &reader)
    {
        if (!id.valid() || m_blocked[id.index()] == blocked)
            return m_rewriter.to(id);
        TensorId &other = m_other[id.index()];
        if (!other.valid()) {
            other = m_rewriter.emit("Reorder", {m_rewriter.to(id)},
                                    {{"to", std::string(blocked ? "blocked" : "row_major")}}, reader);
            m_rewriter.builder().setLayout(other, blocked ? Layout::Blocked : Layout::RowMajor);
        }
        return other;
    }

    Rewriter m_rewriter;
    const Graph &m_graph;
    std::vector<TensorId> m_other; ///< per tensor: its copy in the other layout
    std::vector<bool> m_blocked;   ///< per tensor: made in blocks
    std::vector<bool> m_done;      ///< per operator: written together with another
    std::vector<bool> m_leaves;    ///< per tensor: read from outside
};

} // namespace

Result<TrainingGraph> chooseLayouts(TrainingGraph training)
{
    const auto ops = training.graph.ops();
    if (std::none_of(ops.begin(), ops.end(), [](const Op &op) { return op.traits().cost == CostClass::Convolution; }))
        return training;
    return LayoutChooser(training).choose();
}

} // namespace planloom::graph
