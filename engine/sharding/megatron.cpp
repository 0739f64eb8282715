// SPDX-License-Identifier: Apache-2.0
#include "engine/sharding/megatron.h"
#include "engine/sharding/signatures.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace planloom::sharding {
namespace {

using graph::Op;
using graph::Tensor;
using graph::TensorRole;
using Segments = std::vector<std::int64_t>;

class Megatron {
public:
    Megatron(const graph::Graph &graph, const Mesh &mesh, const MegatronOptions &options)
        : m_graph(graph),
          m_mesh(mesh),
          m_options(options)
    {
    }

    std::map<std::string, NdSbp> run()
    {
        for (const Op &op : m_graph.ops())
            if (isProduct(op) && !m_rows.count(op.id.value))
                pairUp(op);
        if (m_options.vocabularyParallel)
            vocabulary();
        if (m_options.sequenceParallel)
            tokens();
        return std::move(m_pins);
    }

private:
    [[nodiscard]] const Tensor &tensor(TensorId id) const { return m_graph.tensor(id); }
    [[nodiscard]] bool isParameter(TensorId id) const { return id.valid() && tensor(id).role == TensorRole::Parameter; }
    [[nodiscard]] bool isProduct(const Op &op) const
    {
        return op.traits().cost == graph::CostClass::Product && isParameter(op.inputs[1])
            && tensor(op.inputs[1]).shape.rank() == 2 && op.integer("transA") == 0;
    }

    /// The axis of a product's weight that its columns (or rows) are split along.
    static int weightAxis(const Op &product, bool columns)
    {
        return (product.integer("transB") != 0) == columns ? 0 : 1;
    }

    /// Whether a split along the features stays one through the operator.
    static bool keepsSplit(const Op &op)
    {
        return op.traits().elementWise != graph::ElementWise::No || op.type == "Concat" || op.type == "Split"
            || op.type == "RotaryEmbedding";
    }

    /// An addition of two activations: the residual stream.
    [[nodiscard]] bool isResidual(const Op &op) const
    {
        return op.type == "Add" && tensor(op.inputs[0]).role == TensorRole::Activation
            && tensor(op.inputs[1]).role == TensorRole::Activation;
    }

    /// Where a product's result goes.
    struct Path {
        std::vector<TensorId> terms;   ///< parameters added on the way
        const Op *attention = nullptr; ///< the attention on the way
        bool packed = true;            ///< nothing was concatenated before the attention
        std::set<std::int32_t> ends;   ///< products with a weight that read it
        bool bends = false;            ///< an operator that is not linear lies on the way
        bool leaves = false;           ///< something else reads it
    };

    void follow(TensorId id, Path &path, std::set<std::int32_t> &seen) const
    {
        for (const OpId reader : m_graph.consumers(id)) {
            const Op &op = m_graph.op(reader);
            if (op.traits().origin == graph::Origin::Gradient || op.name.starts_with("grad/")
                || !seen.insert(reader.value).second)
                continue; // the backward pass of a training graph
            if (isProduct(op) && op.inputs[0] == id) {
                path.ends.insert(reader.value);
                continue;
            }
            const bool attention = op.traits().isAttention();
            if (!attention && (!keepsSplit(op) || isResidual(op))) {
                path.leaves = true;
                continue;
            }
            path.attention = attention ? &op : path.attention;
            path.packed = path.packed && (op.type != "Concat" || path.attention != nullptr);
            path.bends = path.bends || attention || op.traits().linear != graph::Linear::InAll;
            for (const TensorId input : op.inputs)
                if (op.type == "Add" && isParameter(input))
                    path.terms.push_back(input);
            for (const TensorId output : op.outputs)
                if (!attention || output == op.outputs[0])
                    follow(output, path, seen);
        }
    }

    void pairUp(const Op &columns)
    {
        Path path;
        std::set<std::int32_t> seen;
        follow(columns.outputs[0], path, seen);
        if (path.leaves || path.ends.empty() || !path.bends)
            return;
        Segments segments;
        if (path.attention) {
            const std::int64_t heads = path.attention->integer("heads");
            const std::int64_t kvHeads = path.attention->integer("kv_heads", heads);
            if (heads % devices() != 0 || kvHeads % devices() != 0)
                return;
            const std::int64_t size = tensor(path.attention->outputs[0]).shape[2].size / heads;
            if (path.packed)
                segments = {heads * size, kvHeads * size, kvHeads * size};
        }
        std::vector<TensorId> terms = path.terms;
        if (columns.inputs.size() > 2 && isParameter(columns.inputs[2]))
            terms.push_back(columns.inputs[2]);
        std::map<std::string, NdSbp> pins;
        bool fits = add(pins, columns.inputs[1], weightAxis(columns, true), segments);
        for (const TensorId term : terms)
            fits = fits && add(pins, term, static_cast<int>(tensor(term).shape.rank()) - 1, segments);
        for (const std::int32_t end : path.ends)
            fits = fits && add(pins, m_graph.op(OpId(end)).inputs[1], weightAxis(m_graph.op(OpId(end)), false), {});
        if (!fits)
            return;
        m_pins.merge(pins);
        for (const std::int32_t end : path.ends) {
            m_rows.insert(end);
            whole(m_graph.op(OpId(end)).outputs[0]);
        }
    }

    [[nodiscard]] int devices() const { return m_mesh.devices() / m_mesh.sizes[0]; }

    /// Split along @p axis on every dimension but the first, if that divides.
    bool add(std::map<std::string, NdSbp> &pins, TensorId id, int axis, Segments segments) const
    {
        NdSbp pin{broadcast()};
        const std::optional<int> batch = batchAxis(id);
        if (batch)
            pin[0] = split(*batch);
        if (!canLie(tensor(id), split(axis, segments), devices()))
            return false;
        for (std::size_t d = 1; d < m_mesh.sizes.size(); ++d) {
            pin.push_back(split(axis, segments));
            for (std::int64_t &segment : segments)
                segment /= m_mesh.sizes[d];
        }
        pins[tensor(id).name] = std::move(pin);
        return true;
    }

    [[nodiscard]] std::optional<int> batchAxis(TensorId id) const
    {
        for (std::size_t axis = 0; axis < tensor(id).shape.rank(); ++axis)
            if (tensor(id).shape[axis].batch)
                return static_cast<int>(axis);
        return {};
    }

    /// Between blocks: along the tokens, or whole.
    void whole(TensorId id)
    {
        const graph::Shape &shape = tensor(id).shape;
        if (m_options.sequenceParallel && shape.rank() == 3 && shape[0].batch && add(m_pins, id, 1, {}))
            return;
        NdSbp pin(m_mesh.sizes.size());
        if (const std::optional<int> batch = batchAxis(id))
            pin[0] = split(*batch);
        m_pins[tensor(id).name] = std::move(pin);
    }

    /// The head, found from the loss, and tables that are indexed by inputs.
    void vocabulary()
    {
        for (const Op &op : m_graph.ops())
            if (op.type == "SoftmaxCrossEntropyLoss")
                head(op);
        for (const Op &op : m_graph.ops()) {
            if (op.type != "Gather" || op.integer("axis") != 0 || !isParameter(op.inputs[0])
                || tensor(op.inputs[1]).role != TensorRole::Input)
                continue;
            add(m_pins, op.inputs[0], 0, {});
            whole(op.outputs[0]);
        }
    }

    void head(const Op &loss)
    {
        TensorId logits = loss.inputs[0];
        std::vector<TensorId> terms;
        while (tensor(logits).producer.valid()) {
            const Op &op = m_graph.op(tensor(logits).producer);
            if (isProduct(op)) {
                std::map<std::string, NdSbp> pins;
                bool fits = add(pins, op.inputs[1], weightAxis(op, true), {});
                for (const TensorId term : terms)
                    fits = fits && add(pins, term, static_cast<int>(tensor(term).shape.rank()) - 1, {});
                if (fits)
                    m_pins.merge(pins);
                return;
            }
            if (op.type == "Add" && isParameter(op.inputs[1]))
                terms.push_back(op.inputs[1]);
            else if (op.type != "Reshape" && op.type != "Cast")
                return;
            logits = op.inputs[0];
        }
    }

    /// The residual stream and its start.
    void tokens()
    {
        for (const Op &op : m_graph.ops()) {
            const bool table =
                op.type == "Gather" && isParameter(op.inputs[0]) && tensor(op.inputs[1]).role == TensorRole::Input;
            const graph::Shape &shape = tensor(op.outputs[0]).shape;
            const bool between = shape.rank() == 3 && shape[0].batch;
            if ((table || isResidual(op)) && between && !op.name.starts_with("grad/"))
                add(m_pins, op.outputs[0], 1, {});
        }
    }

    const graph::Graph &m_graph;
    const Mesh &m_mesh;
    const MegatronOptions &m_options;
    std::set<std::int32_t> m_rows; ///< products that are split by rows
    std::map<std::string, NdSbp> m_pins;
};

} // namespace

std::map<std::string, NdSbp> megatronPins(const graph::Graph &graph, const Mesh &mesh, const MegatronOptions &options)
{
    if (mesh.sizes.size() < 2 || mesh.devices() == mesh.sizes[0])
        return {};
    return Megatron(graph, mesh, options).run();
}

} // namespace planloom::sharding
