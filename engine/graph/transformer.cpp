// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/transformer.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <optional>

namespace planloom::graph {
namespace {

/// Thrown within this file only: the first thing that does not fit.
struct Misfit {
    std::string what;
};

[[noreturn]] void misfit(std::string what) { throw Misfit{std::move(what)}; }

/// A linear layer: product, then perhaps a bias.
struct Linear {
    const Op *product = nullptr;
    bool bias = false;
    TensorId out;
};

class TransformerReader {
public:
    explicit TransformerReader(const Graph &graph) : m_graph(graph) {}

    Transformer read()
    {
        for (const Op &op : m_graph.ops())
            if (op.traits().isAttention())
                readBlock(op);
        if (m_found.blocks.empty())
            misfit("has no attention");
        readEmbedding();
        readHead();
        return std::move(m_found);
    }

private:
    [[nodiscard]] const Tensor &tensor(TensorId id) const { return m_graph.tensor(id); }
    [[nodiscard]] bool isParameter(TensorId id) const { return id.valid() && tensor(id).role == TensorRole::Parameter; }
    [[nodiscard]] bool isActivation(TensorId id) const
    {
        return id.valid() && tensor(id).role == TensorRole::Activation;
    }
    [[nodiscard]] const Op *producer(TensorId id) const
    {
        return isActivation(id) ? &m_graph.op(tensor(id).producer) : nullptr;
    }

    [[nodiscard]] bool isProduct(const Op &op) const
    {
        return op.traits().cost == CostClass::Product && op.inputs.size() > 1 && isParameter(op.inputs[1])
            && tensor(op.inputs[1]).shape.rank() == 2;
    }
    static bool isNorm(const Op &op) { return op.type == "LayerNormalization" || op.type == "RMSNormalization"; }
    static bool isDropout(const Op &op) { return op.type == "Dropout" || op.type == "MaskedDropout"; }
    [[nodiscard]] bool isBias(const Op &op) const
    {
        return op.type == "Add" && (isParameter(op.inputs[0]) || isParameter(op.inputs[1]));
    }
    [[nodiscard]] bool isResidual(const Op &op) const
    {
        return op.type == "Add" && isActivation(op.inputs[0]) && isActivation(op.inputs[1]);
    }
    static bool isPassedBy(const Op &op) { return op.type == "Reshape" || op.type == "Cast" || op.type == "Identity"; }

    /// Readers of the forward pass.
    [[nodiscard]] std::vector<const Op *> readers(TensorId id) const
    {
        std::vector<const Op *> all;
        for (const OpId reader : m_graph.consumers(id)) {
            const Op &op = m_graph.op(reader);
            if (op.traits().origin != Origin::Gradient && !op.name.starts_with("grad/"))
                all.push_back(&op);
        }
        return all;
    }
    const Op &onlyReader(TensorId id) const
    {
        const auto all = readers(id);
        if (all.size() != 1)
            misfit(fmt::format("{} is read by {} operators where a transformer has one", tensor(id).name, all.size()));
        return *all.front();
    }

    /// Sizes must be those of the blocks before.
    template <class T>
    void same(T &known, T found, const char *what, const Op &where)
    {
        if (m_found.blocks.empty())
            known = found;
        else if (known != found)
            misfit(fmt::format("its blocks differ: {} of {} is not that of the first block", what, where.name));
    }

    /// Forward from a product: its bias and operators that pass it on.
    Linear linearFrom(const Op &product) const
    {
        Linear linear{&product, product.inputs.size() > 2 && isParameter(product.inputs[2]), product.outputs[0]};
        while (true) {
            const auto all = readers(linear.out);
            if (all.size() != 1 || !(isBias(*all.front()) || isPassedBy(*all.front())))
                return linear;
            linear.bias = linear.bias || isBias(*all.front());
            linear.out = all.front()->outputs[0];
        }
    }

    [[nodiscard]] std::int64_t columns(const Op &product) const
    {
        return tensor(product.inputs[1]).shape[product.integer("transB") != 0 ? 0 : 1].size;
    }
    [[nodiscard]] std::int64_t rows(const Op &product) const
    {
        return tensor(product.inputs[1]).shape[product.integer("transB") != 0 ? 1 : 0].size;
    }

    /// From where a product's result is ready to the addition with the way around it.
    const Op &residualAfter(TensorId id)
    {
        const Op *op = &onlyReader(id);
        double ratio = 0;
        while (isDropout(*op) || isPassedBy(*op)) {
            ratio = isDropout(*op) ? op->number("ratio", 0.5) : ratio;
            op = &onlyReader(op->outputs[0]);
        }
        if (!isResidual(*op))
            misfit(fmt::format("{} ({}) follows a block's product, where the way around is added", op->name,
                               op->type.name()));
        same(m_found.hiddenDropout, ratio, "dropout", *op);
        return *op;
    }

    void readBlock(const Op &attention)
    {
        same(m_found.heads, attention.integer("heads"), "the number of heads", attention);
        same(m_found.kvHeads, attention.integer("kv_heads", attention.integer("heads")),
             "the number of key and value heads", attention);
        same(m_found.causal, attention.integer("causal") != 0, "the mask", attention);
        same(m_found.attentionDropout, attention.number("ratio", 0), "dropout", attention);
        const Shape &mixed = tensor(attention.outputs[0]).shape;
        if (mixed.rank() != 3 || m_found.heads < 1)
            misfit(fmt::format("{} is not attention over [samples, tokens, width]", attention.name));
        same(m_found.sequence, mixed[1].size, "the number of tokens", attention);
        same(m_found.headSize, mixed[2].size / m_found.heads, "the size of a head", attention);
        const TensorId input = readProjections(attention);
        const Op *out = &onlyReader(attention.outputs[0]);
        while (isPassedBy(*out) || isDropout(*out))
            out = &onlyReader(out->outputs[0]);
        if (!isProduct(*out))
            misfit(fmt::format("{} ({}) follows attention, where a linear layer does", out->name, out->type));
        m_outBias = linearFrom(*out).bias;
        same(m_found.hidden, columns(*out), "the width", *out);
        const Op *first = producer(input);
        const Op &residual = residualAfter(linearFrom(*out).out);
        readFeedForward(residual);
        const bool normed = first && isNorm(*first) && !m_found.postNorm;
        if (!m_found.postNorm && !normed)
            misfit(fmt::format("no normalisation lies in front of {}", attention.name));
        m_block.first = normed ? first->id : m_firstProjection;
        readBiases(attention);
        m_found.blocks.push_back(m_block);
    }

    /// Backward from attention to the input of its projections.
    TensorId readProjections(const Op &attention)
    {
        const Op *op = producer(attention.inputs[0]);
        Transformer::Positions positions = Transformer::Positions::None;
        double base = 0;
        std::vector<const Op *> products;
        m_qkvBias = false;
        m_firstProjection = {};
        std::vector<const Op *> open{op};
        while (!open.empty()) {
            op = open.back();
            open.pop_back();
            if (!op)
                misfit(fmt::format("{} does not read separate projections", attention.name));
            if (op->type == "RotaryEmbedding") {
                if (const auto frequencies = static_cast<std::int64_t>(op->numbers("inverse_frequencies").size());
                    frequencies > 0)
                    misfit(fmt::format("{} {}", op->name,
                                       frequencies < m_found.headSize / 2
                                           ? "turns a part of each head"
                                           : "scales the frequencies of rotary positions"));
                positions = Transformer::Positions::Rotary;
                base = op->number("theta", 10000);
            }
            if (isProduct(*op)) {
                products.push_back(op);
                m_qkvBias = m_qkvBias || op->inputs.size() > 2;
                continue;
            }
            const bool many = op->type == "Concat";
            if (!many && !isBias(*op) && !isPassedBy(*op) && op->type != "RotaryEmbedding")
                misfit(fmt::format("{} ({}) lies between the projections and {}", op->name, op->type.name(),
                                   attention.name));
            m_qkvBias = m_qkvBias || isBias(*op);
            for (const TensorId id : op->inputs)
                if (isActivation(id))
                    open.push_back(producer(id));
        }
        if (products.empty())
            misfit(fmt::format("{} does not read separate projections", attention.name));
        for (const Op *product : products) {
            if (product->inputs[0] != products.front()->inputs[0])
                misfit(fmt::format("the projections of {} read different tensors", attention.name));
            if (!m_firstProjection.valid() || product->id.value < m_firstProjection.value)
                m_firstProjection = product->id;
        }
        same(m_found.positions, positions, "the kind of positions", attention);
        same(m_found.rotaryBase, base, "the base of rotary positions", attention);
        return products.front()->inputs[0];
    }

    void readNorm(const Op &norm)
    {
        if (!isParameter(norm.inputs[1]))
            misfit(fmt::format("the scale of {} is no parameter", norm.name));
        same(m_found.rmsNorm, norm.type == "RMSNormalization", "the kind of normalisation", norm);
        same(m_found.normEpsilon, norm.number("epsilon", 1e-5), "epsilon", norm);
    }

    /// Forward from the addition behind attention to the one behind the feed-forward network.
    void readFeedForward(const Op &residual)
    {
        const Op *norm = nullptr;
        for (const Op *reader : readers(residual.outputs[0]))
            norm = isNorm(*reader) ? reader : norm;
        if (!norm)
            misfit(fmt::format("no normalisation follows {}", residual.name));
        readNorm(*norm);
        same(m_found.postNorm, readers(residual.outputs[0]).size() == 1, "the place of the normalisation", *norm);
        std::vector<const Op *> up;
        for (const Op *reader : readers(norm->outputs[0]))
            if (isProduct(*reader))
                up.push_back(reader);
        if (up.empty() || up.size() > 2)
            misfit(fmt::format("{} linear layers read {}, where a feed-forward network has one or two", up.size(),
                               norm->name));
        same(m_found.gated, up.size() == 2, "the feed-forward network", *up.front());
        same(m_found.feedForward, columns(*up.front()), "the width of the feed-forward network", *up.front());
        const TensorId active = readActivation(up);
        const Op &down = onlyReader(active);
        if (!isProduct(down) || columns(down) != m_found.hidden)
            misfit(
                fmt::format("{} ({}) follows an activation, where a linear layer does", down.name, down.type.name()));
        m_downBias = linearFrom(down).bias;
        const Op &end = residualAfter(linearFrom(down).out);
        m_block.last = end.id;
        if (m_found.postNorm) {
            const Op &last = onlyReader(end.outputs[0]);
            if (!isNorm(last))
                misfit(fmt::format("no normalisation follows {}", end.name));
            m_block.last = last.id;
        }
    }

    TensorId readActivation(const std::vector<const Op *> &up)
    {
        std::optional<Transformer::Activation> found;
        std::vector<TensorId> ends;
        m_upBias = false;
        for (const Op *product : up) {
            const Linear linear = linearFrom(*product);
            m_upBias = m_upBias || linear.bias;
            ends.push_back(linear.out);
            const Op &op = onlyReader(linear.out);
            if (op.type == "Mul")
                continue; // the other branch of a gated one
            if (op.type == "Gelu")
                found = op.text("approximate", "none") == "tanh" ? Transformer::Activation::GeluTanh
                                                                 : Transformer::Activation::Gelu;
            else if (op.type == "Relu")
                found = Transformer::Activation::Relu;
            else if (op.type == "Silu")
                found = Transformer::Activation::Silu;
            else
                misfit(fmt::format("{} ({}) is no activation of a feed-forward network that is known", op.name,
                                   op.type.name()));
            ends.back() = op.outputs[0];
        }
        if (!found)
            misfit(fmt::format("no activation follows {}", up.front()->name));
        same(m_found.activation, *found, "the activation", *up.front());
        if (up.size() == 1)
            return ends.front();
        const Op &first = onlyReader(ends[0]);
        if (first.type != "Mul" || &first != &onlyReader(ends[1]))
            misfit(fmt::format("the two linear layers behind {} are not multiplied", up.front()->name));
        return first.outputs[0];
    }

    void readBiases(const Op &attention)
    {
        const bool rest = m_outBias;
        if (m_upBias != rest || m_downBias != rest || (rest && !m_qkvBias))
            misfit(fmt::format("some linear layers of {}'s block have a bias and others have none", attention.name));
        same(m_found.biases,
             rest            ? Transformer::Biases::All
                 : m_qkvBias ? Transformer::Biases::OnlyQkv
                             : Transformer::Biases::None,
             "biases", attention);
    }

    /// True if a constant counts 0, 1, 2 ...
    [[nodiscard]] bool counts(const Tensor &constant) const
    {
        const auto &data = constant.init.data;
        if (!data || constant.type != DType::I64 || data->size() < 2 * sizeof(std::int64_t))
            return false;
        std::int64_t first[2] = {};
        std::memcpy(first, data->data(), sizeof first);
        if (first[0] != 0 && first[1] == first[0] + 1)
            misfit(fmt::format("{} begins at row {} of a table of positions, not at 0", constant.name, first[0]));
        return first[1] == 1;
    }

    void readEmbedding()
    {
        for (const Op &op : m_graph.ops()) {
            if (op.type != "Gather" || op.integer("axis") != 0 || !isParameter(op.inputs[0])
                || tensor(op.inputs[0]).shape.rank() != 2)
                continue;
            const Tensor &table = tensor(op.inputs[0]);
            const Tensor &index = tensor(op.inputs[1]);
            if (index.role == TensorRole::Input && !m_table.valid()) {
                if (table.shape[1].size != m_found.hidden)
                    misfit(fmt::format("{} is {} wide, and its blocks {}", table.name, table.shape[1].size,
                                       m_found.hidden));
                m_table = table.id;
                m_found.embedding = op.id;
                m_found.vocabulary = table.shape[0].size;
                m_found.initDeviation = table.init.kind == Initializer::Kind::Normal ? table.init.b : 0;
                for (const Op *reader : readers(op.outputs[0]))
                    if (reader->type == "Mul" || reader->type == "Div")
                        misfit(fmt::format("{} scales the tokens' vectors", reader->name));
            } else if (index.role == TensorRole::Constant && counts(index)) {
                m_found.positions = Transformer::Positions::Learned;
                m_found.positionRows = table.shape[0].size;
            } else {
                m_found.tokenTypes = true;
            }
        }
        if (!m_table.valid())
            misfit("has no table of tokens");
    }

    /// Back from the loss.
    void readHead()
    {
        const Op *loss = producer(m_graph.loss());
        if (!loss || loss->type != "SoftmaxCrossEntropyLoss")
            misfit("has no cross-entropy loss over a vocabulary");
        const Op *op = producer(loss->inputs[0]);
        while (op && (isPassedBy(*op) || isBias(*op)))
            op = producer(isActivation(op->inputs[0]) ? op->inputs[0] : op->inputs[1]);
        if (!op || !isProduct(*op) || columns(*op) != m_found.vocabulary)
            misfit("its loss is not taken of a product with the vocabulary");
        m_found.head = op->id;
        m_found.tiedHead = op->inputs[1] == m_table;
        const TensorId end = m_graph.op(m_found.blocks.back().last).outputs[0];
        for (op = producer(op->inputs[0]); op && op->outputs[0] != end; op = producer(op->inputs[0])) {
            m_found.headTransform = m_found.headTransform || isProduct(*op);
            if (op->id.value < m_found.blocks.back().last.value)
                misfit("its head does not read the last block");
        }
    }

    const Graph &m_graph;
    Transformer m_found;
    TransformerBlock m_block;
    OpId m_firstProjection;
    TensorId m_table;
    bool m_qkvBias = false, m_outBias = false, m_upBias = false, m_downBias = false;
};

} // namespace

Result<Transformer> readTransformer(const Graph &graph)
{
    try {
        return TransformerReader(graph).read();
    } catch (const Misfit &misfit) {
        return unsupported(fmt::format("model {} is not a stack of transformer blocks: {}", graph.name(), misfit.what));
    }
}

} // namespace planloom::graph
