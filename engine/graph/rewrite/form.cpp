// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/rewrite/form.h"

#include "engine/graph/operators/operators.h"

#include <algorithm>
#include <utility>

namespace planloom::graph {
namespace {

constexpr const char *kDropout = "MaskedDropout";
constexpr const char *kUnfused = "UnfusedAttention";

class Former {
public:
    Former(const Graph &from, const Form &form)
        : m_from(from),
          m_form(form),
          m_builder(from.name()),
          m_to(from.tensors().size())
    {
    }

    Result<Graph> run() &&
    {
        for (const Tensor &tensor : m_from.tensors())
            if (tensor.role != TensorRole::Activation)
                m_to[tensor.id.index()] = m_builder.copy(tensor);
        for (const Op &op : m_from.ops())
            if (const Status written = write(op); !written)
                return written.error();
        for (const TensorId output : m_from.outputs())
            m_builder.output(to(output));
        if (m_from.loss().valid())
            m_builder.loss(to(m_from.loss()), m_from.lossOrigin());
        return std::move(m_builder).build();
    }

private:
    [[nodiscard]] TensorId to(TensorId id) const { return id.valid() ? m_to[id.index()] : id; }
    [[nodiscard]] const Tensor &tensor(TensorId id) const { return m_from.tensor(id); }
    [[nodiscard]] bool isParameter(TensorId id) const { return id.valid() && tensor(id).role == TensorRole::Parameter; }
    [[nodiscard]] bool drops() const { return m_form.dropout.value_or(0) > 0; }

    Status write(const Op &op)
    {
        if (op.type == kDropout && m_form.dropout) {
            // The one of this form is made behind what it reads.
            m_to[op.outputs[0].index()] = to(op.inputs[0]);
            return {};
        }
        const bool attention = op.traits().isAttention();
        const bool pieces = attention && !m_form.fusedAttention.value_or(op.type != kUnfused);
        if (attention && (pieces || op.type == kUnfused))
            return writeAttention(op, pieces);
        std::vector<TensorId> inputs;
        for (const TensorId input : op.inputs)
            inputs.push_back(to(input));
        if (drops() && isResidual(op))
            for (std::size_t i = 0; i < 2; ++i)
                if (endsProduct(op.inputs[i])) {
                    inputs[i] = dropped(inputs[i], op);
                    break;
                }
        for (const TensorId output : op.outputs)
            m_to[output.index()] = m_builder.copy(tensor(output));
        m_builder.addOp(op.type, op.name, op.scope, inputs, outputsOf(op), op.attributes);
        if (drops() && isEmbedding(op))
            m_to[op.outputs[0].index()] = dropped(to(op.outputs[0]), op);
        return {};
    }

    /// Its second outputs differ by type: the builder adds them.
    Status writeAttention(const Op &op, bool pieces)
    {
        const std::int64_t heads = op.integer("heads");
        const bool masked = op.inputs.size() > 1 && op.inputs[1].valid();
        if (pieces && (masked || op.integer("kv_heads", heads) != heads))
            return unsupported("attention '" + op.name + "' "
                               + (masked ? "has a mask" : "shares keys among several heads")
                               + ", which has no form in pieces; give --attention fused");
        Attributes attributes{{"heads", heads}, {"causal", op.integer("causal")}};
        const double ratio = m_form.dropout.value_or(op.number("ratio"));
        if (pieces && ratio > 0)
            attributes["ratio"] = ratio;
        const TensorId out = m_builder.copy(tensor(op.outputs[0]));
        m_to[op.outputs[0].index()] = out;
        m_builder.addOp(pieces ? kUnfused : "Attention", op.name, op.scope, {to(op.inputs[0])}, {out},
                        std::move(attributes));
        return {};
    }

    [[nodiscard]] std::vector<TensorId> outputsOf(const Op &op) const
    {
        std::vector<TensorId> outputs;
        for (const TensorId output : op.outputs)
            outputs.push_back(to(output));
        return outputs;
    }

    TensorId dropped(TensorId x, const Op &like)
    {
        m_builder.pushScope(like.scope);
        const TensorId made = m_builder.add(kDropout, {x}, {{"ratio", *m_form.dropout}}, "dropout");
        m_builder.popScope();
        return made;
    }

    [[nodiscard]] const Op *producer(TensorId id) const
    {
        const OpId made = id.valid() ? tensor(id).producer : OpId();
        return made.valid() ? &m_from.op(made) : nullptr;
    }

    /// Of two activations: the way around half a block.
    [[nodiscard]] bool isResidual(const Op &op) const
    {
        return op.type == "Add" && producer(op.inputs[0]) && producer(op.inputs[1]);
    }

    /// A product with a weight, its bias and dropout.
    [[nodiscard]] bool endsProduct(TensorId id) const
    {
        const Op *op = producer(id);
        while (op != nullptr && op->type == kDropout)
            op = producer(op->inputs[0]);
        if (op != nullptr && op->type == "Add" && (isParameter(op->inputs[0]) || isParameter(op->inputs[1])))
            op = producer(op->inputs[isParameter(op->inputs[0]) ? 1 : 0]);
        return op != nullptr && op->traits().cost == CostClass::Product && isParameter(op->inputs[1]);
    }

    /// The sum of looked-up rows that no further row is added to.
    [[nodiscard]] bool isEmbedding(const Op &op) const
    {
        const auto looksUp = [this](const Op *made) {
            return made != nullptr && made->type == "Gather" && isParameter(made->inputs[0]);
        };
        if (!isResidual(op) || !looksUp(producer(op.inputs[1])))
            return false;
        const auto readers = m_from.consumers(op.outputs[0]);
        return std::none_of(readers.begin(), readers.end(), [&](OpId reader) {
            const Op &next = m_from.op(reader);
            return isResidual(next) && looksUp(producer(next.inputs[1]));
        });
    }

    const Graph &m_from;
    const Form &m_form;
    GraphBuilder m_builder;
    std::vector<TensorId> m_to;
};

} // namespace

Result<Graph> inForm(const Graph &graph, const Form &form) { return Former(graph, form).run(); }

} // namespace planloom::graph
