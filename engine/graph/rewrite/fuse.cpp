// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/rewrite/fuse.h"

#include "engine/graph/rewrite/rewrite.h"

#include <algorithm>

namespace planloom::graph {
namespace {

class Fusion {
public:
    explicit Fusion(const TrainingGraph &from)
        : m_from(from),
          m_rewriter(from),
          m_partner(from.graph.ops().size()),
          m_gelu(from.graph.ops().size()),
          m_gone(from.graph.ops().size(), false),
          m_kept(from.graph.tensors().size(), false)
    {
        for (const auto *ids : {&from.outputs, &from.inputGradients, &from.gradients}) {
            for (const TensorId id : *ids)
                keep(id);
        }
        for (const TensorId id : from.graph.outputs())
            keep(id);
        keep(from.loss);
    }

    Result<TrainingGraph> run() &&
    {
        for (const Op &op : m_from.graph.ops()) {
            if (op.type == "Add" && !joinBias(op))
                joinNormalization(op);
            else if (op.type == "AddN")
                joinGradient(op);
            else if (op.type == "GeluGrad")
                joinGeluGradient(op);
        }
        for (const Op &op : m_from.graph.ops()) {
            if (op.id.index() == m_from.forwardOps)
                m_rewriter.beginBackward();
            write(op);
        }
        if (m_from.forwardOps == m_from.graph.ops().size())
            m_rewriter.beginBackward();
        return std::move(m_rewriter).finish();
    }

private:
    void keep(TensorId id)
    {
        if (id.valid())
            m_kept[id.index()] = true;
    }

    [[nodiscard]] const Tensor &tensor(TensorId id) const { return m_from.graph.tensor(id); }

    /// The operator that makes @p id, if it is one of @p type that is still there, in the same pass as @p reader, and
    /// @p id has no other reader.
    [[nodiscard]] const Op *soleSource(TensorId id, std::string_view type, const Op &reader) const
    {
        const OpId producer = tensor(id).producer;
        if (!producer.valid() || m_kept[id.index()] || m_from.graph.consumers(id).size() != 1)
            return nullptr;
        const Op &op = m_from.graph.op(producer);
        return op.type == type && isFree(op) && isForward(op) == isForward(reader) ? &op : nullptr;
    }

    [[nodiscard]] bool isForward(const Op &op) const { return op.id.index() < m_from.forwardOps; }
    [[nodiscard]] bool isFree(const Op &op) const
    {
        return !m_gone[op.id.index()] && !m_partner[op.id.index()].valid();
    }

    /// @p anchor is written as a fused operator with @p partner, which goes.
    void join(const Op &anchor, const Op &partner)
    {
        m_partner[anchor.id.index()] = partner.id;
        m_gone[partner.id.index()] = true;
    }

    bool joinBias(const Op &add)
    {
        for (const std::size_t at : {0, 1}) {
            const Op *product = soleSource(add.inputs[at], "MatMul", add);
            const Shape &term = tensor(add.inputs[1 - at]).shape;
            if (product == nullptr || product->inputs.size() != 2 || product->integer("transA") != 0)
                continue;
            const Shape &sum = tensor(add.outputs[0]).shape;
            const bool isRow = term.rank() == 1 && !term[0].batch && term[0] == sum.dims().back()
                && sum == tensor(add.inputs[at]).shape;
            if (!isRow || tensor(product->inputs[1]).shape.rank() != 2)
                continue;
            join(add, *product);
            joinGelu(add);
            if (const Op *cast = castOf(add.inputs[1 - at], add))
                m_gone[cast->id.index()] = true;
            return true;
        }
        return false;
    }

    /// GELU of a sum that is written as a product with its bias.
    void joinGelu(const Op &add)
    {
        if (tensor(add.outputs[0]).type != DType::F32)
            return;
        for (const OpId reader : m_from.graph.consumers(add.outputs[0])) {
            const Op &gelu = m_from.graph.op(reader);
            if (gelu.type != "Gelu" || !isFree(gelu) || isForward(gelu) != isForward(add))
                continue;
            m_gelu[add.id.index()] = gelu.id;
            m_gone[gelu.id.index()] = true;
            return;
        }
    }

    void joinGeluGradient(const Op &gradient)
    {
        const Op *product = soleSource(gradient.inputs[0], "MatMul", gradient);
        if (product == nullptr || product->inputs.size() != 2 || product->integer("transA") != 0
            || tensor(gradient.outputs[0]).type != DType::F32)
            return;
        const bool samePlace = tensor(product->inputs[1]).shape.rank() == 2
            && tensor(product->outputs[0]).shape == tensor(gradient.outputs[0]).shape;
        if (samePlace)
            join(gradient, *product);
    }

    /// The Cast from float32 that makes @p bias for @p add alone.
    [[nodiscard]] const Op *castOf(TensorId bias, const Op &add) const
    {
        const Tensor &term = tensor(bias);
        if (!term.producer.valid() || m_from.graph.consumers(bias).size() != 1)
            return nullptr;
        const Op &cast = m_from.graph.op(term.producer);
        return cast.type == "Cast" && isForward(cast) == isForward(add) && tensor(cast.inputs[0]).type == DType::F32
            ? &cast
            : nullptr;
    }

    void joinNormalization(const Op &add)
    {
        const Shape &sum = tensor(add.outputs[0]).shape;
        if (tensor(add.inputs[0]).shape != sum || tensor(add.inputs[1]).shape != sum)
            return;
        for (const OpId reader : m_from.graph.consumers(add.outputs[0])) {
            const Op &norm = m_from.graph.op(reader);
            const bool known = norm.type == "LayerNormalization" || norm.type == "RMSNormalization";
            if (!known || norm.inputs[0] != add.outputs[0] || !isFree(norm) || isForward(norm) != isForward(add)
                || !isFixed(norm))
                continue;
            join(add, norm);
            return;
        }
    }

    /// True if all but the first input are there from the start, so that the operator may move forward.
    [[nodiscard]] bool isFixed(const Op &op) const
    {
        return std::all_of(op.inputs.begin() + 1, op.inputs.end(),
                           [&](TensorId id) { return !id.valid() || tensor(id).role != TensorRole::Activation; });
    }

    void joinGradient(const Op &sum)
    {
        if (sum.inputs.size() != 2 || sum.inputs[0] == sum.inputs[1])
            return;
        for (const std::size_t at : {0, 1}) {
            for (const auto &[type, inputs] :
                 {std::pair("LayerNormalizationGrad", 5), std::pair("RMSNormalizationGrad", 4)}) {
                const Op *gradient = soleSource(sum.inputs[at], type, sum);
                if (gradient == nullptr || gradient->inputs.size() != static_cast<std::size_t>(inputs)
                    || gradient->outputs[0] != sum.inputs[at])
                    continue;
                join(sum, *gradient);
                return;
            }
        }
    }

    std::vector<TensorId> mapped(const std::vector<TensorId> &ids)
    {
        std::vector<TensorId> made;
        for (const TensorId id : ids)
            made.push_back(m_rewriter.to(id));
        return made;
    }

    void write(const Op &op)
    {
        if (m_gone[op.id.index()])
            return;
        const OpId partner = m_partner[op.id.index()];
        if (!partner.valid())
            m_rewriter.copy(op);
        else if (op.type == "AddN")
            writeGradient(op, m_from.graph.op(partner));
        else if (op.type == "GeluGrad")
            writeGeluGradient(op, m_from.graph.op(partner));
        else if (m_from.graph.op(partner).type == "MatMul")
            writeProduct(op, m_from.graph.op(partner));
        else
            writeNormalization(op, m_from.graph.op(partner));
    }

    void writeProduct(const Op &add, const Op &product)
    {
        TensorId bias = add.inputs[add.inputs[0] == product.outputs[0] ? 1 : 0];
        if (const Op *cast = castOf(bias, add))
            bias = cast->inputs[0];
        std::vector<TensorId> inputs = mapped(product.inputs);
        inputs.push_back(m_rewriter.to(bias));
        const OpId gelu = m_gelu[add.id.index()];
        if (!gelu.valid()) {
            m_rewriter.replace(product.type, product.name, std::move(inputs), product.attributes, product, add.outputs);
            return;
        }
        const Op &activation = m_from.graph.op(gelu);
        m_rewriter.replace("MatMulGelu", product.name, std::move(inputs), both(product, activation), product,
                           {activation.outputs[0], add.outputs[0]});
    }

    void writeGeluGradient(const Op &gradient, const Op &product)
    {
        const std::vector<TensorId> inputs = mapped({product.inputs[0], product.inputs[1], gradient.inputs[1]});
        m_rewriter.replace("MatMulGeluGrad", product.name, inputs, both(product, gradient), product, gradient.outputs);
    }

    static Attributes both(const Op &product, const Op &activation)
    {
        Attributes attributes = product.attributes;
        attributes["approximate"] = activation.text("approximate", "none");
        return attributes;
    }

    void writeNormalization(const Op &add, const Op &norm)
    {
        std::vector<TensorId> inputs = mapped(add.inputs);
        const std::vector<TensorId> scales = mapped({norm.inputs.begin() + 1, norm.inputs.end()});
        inputs.insert(inputs.end(), scales.begin(), scales.end());
        std::vector<TensorId> outputs = norm.outputs;
        outputs.insert(outputs.begin() + 1, add.outputs[0]);
        m_rewriter.replace("Add" + norm.type, norm.name, std::move(inputs), norm.attributes, norm, outputs);
    }

    void writeGradient(const Op &sum, const Op &gradient)
    {
        std::vector<TensorId> inputs = mapped(gradient.inputs);
        inputs.push_back(m_rewriter.to(sum.inputs[sum.inputs[0] == gradient.outputs[0] ? 1 : 0]));
        std::vector<TensorId> outputs = gradient.outputs;
        outputs[0] = sum.outputs[0];
        m_rewriter.replace(gradient.type, gradient.name, std::move(inputs), gradient.attributes, gradient, outputs);
    }

    const TrainingGraph &m_from;
    Rewriter m_rewriter;
    std::vector<OpId> m_partner; ///< by the operator at whose place a fused one is written: the other that goes into it
    std::vector<OpId> m_gelu;    ///< by the Add of a bias: the GELU of its sum that goes into the product too
    std::vector<bool> m_gone;    ///< operators that are not written by themselves
    std::vector<bool> m_kept;    ///< tensors that the TrainingGraph's lists name
};

} // namespace

Result<TrainingGraph> fuse(const TrainingGraph &training) { return Fusion(training).run(); }

} // namespace planloom::graph
