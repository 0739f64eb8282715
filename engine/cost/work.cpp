// SPDX-License-Identifier: Apache-2.0
#include "engine/cost/work.h"

#include "engine/graph/operators/operators.h"

namespace planloom::cost {
namespace {

using graph::CostClass;
using graph::DType;
using graph::Shape;
using graph::Tensor;
using Kind = KernelWork::Kind;

Affine scaled(Affine value, double factor) { return {value.fixed * factor, value.perSample * factor}; }

/// Writes the kernels of one operator.
class Writer {
public:
    Writer(const graph::Graph &graph, const graph::Op &op, bool half)
        : m_graph(graph),
          m_op(op),
          m_half(half),
          m_one(graph::figures(graph, op.id, 1)),
          m_two(graph::figures(graph, op.id, 2))
    {
    }

    std::vector<KernelWork> forward()
    {
        switch (m_op.traits().cost) {
        case CostClass::View: break;
        case CostClass::Product: matMul(); break;
        case CostClass::WeightGradient: weightGradient(); break;
        case CostClass::Convolution: convolution(*output(0), true); break;
        case CostClass::ConvolutionInputGradient: convolution(*input(0), true); break;
        case CostClass::ConvolutionWeightGradient: convolution(*input(0), false); break;
        case CostClass::Attention:
        case CostClass::AttentionGradient: add(Kind::Attention, figure(&graph::OpCostFigures::forward), bytes()); break;
        case CostClass::AttentionInPieces: unfusedAttention(*input(0)); break;
        case CostClass::AttentionInPiecesGradient: unfusedAttentionGradient(*input(1)); break;
        case CostClass::Computing: add(Kind::Computing, figure(&graph::OpCostFigures::forward), bytes()); break;
        case CostClass::Unset: // an unknown type
        case CostClass::MemoryBound:
        case CostClass::Communication:
        case CostClass::Measured: add(Kind::Streaming, {}, bytes()); break;
        }
        return std::move(m_work);
    }

    std::vector<KernelWork> backward()
    {
        const CostClass cost = m_op.traits().cost;
        if (cost == CostClass::View || (m_one.backward.value() <= 0 && m_one.backwardBytes.value() == 0))
            return {};
        if (cost == CostClass::Product)
            matMulGradients();
        else if (cost == CostClass::Convolution)
            convolutionGradients();
        else if (cost == CostClass::Attention)
            add(Kind::Attention, figure(&graph::OpCostFigures::backward), backwardBytes());
        else if (cost == CostClass::AttentionInPieces)
            unfusedAttentionGradient(*input(0));
        else if (cost == CostClass::Computing)
            add(Kind::Computing, figure(&graph::OpCostFigures::backward), backwardBytes());
        else
            add(Kind::Streaming, {}, backwardBytes());
        return std::move(m_work);
    }

private:
    [[nodiscard]] const Tensor *input(std::size_t i) const
    {
        return i < m_op.inputs.size() && m_op.inputs[i].valid() ? &m_graph.tensor(m_op.inputs[i]) : nullptr;
    }
    [[nodiscard]] const Tensor *output(std::size_t i) const
    {
        return i < m_op.outputs.size() ? &m_graph.tensor(m_op.outputs[i]) : nullptr;
    }

    [[nodiscard]] Affine figure(Flops graph::OpCostFigures::*which) const
    {
        return Affine::through((m_one.*which).value(), (m_two.*which).value());
    }
    [[nodiscard]] Affine figure(Bytes graph::OpCostFigures::*which) const
    {
        return Affine::through(static_cast<double>((m_one.*which).value()),
                               static_cast<double>((m_two.*which).value()));
    }
    [[nodiscard]] double width() const { return m_half ? 0.5 : 1; }
    [[nodiscard]] Affine bytes() const { return scaled(figure(&graph::OpCostFigures::forwardBytes), width()); }
    [[nodiscard]] Affine backwardBytes() const { return scaled(figure(&graph::OpCostFigures::backwardBytes), width()); }
    [[nodiscard]] DType computedIn(const Tensor &tensor) const
    {
        return m_half && tensor.type == DType::F32 ? DType::BF16 : tensor.type;
    }

    static Affine elements(const Shape &shape)
    {
        return Affine::through(static_cast<double>(shape.elements(1)), static_cast<double>(shape.elements(2)));
    }
    static Affine sizeOf(graph::Dim dim)
    {
        return Affine::through(static_cast<double>(dim.at(1)), static_cast<double>(dim.at(2)));
    }
    static Affine constant(double value) { return {value, 0}; }
    [[nodiscard]] Affine bytesOf(const Tensor &tensor) const
    {
        return scaled(elements(tensor.shape),
                      static_cast<double>(graph::sizeOf(tensor.type)) * (tensor.type == DType::F32 ? width() : 1));
    }

    void add(Kind kind, Affine flops, Affine moved)
    {
        KernelWork work;
        work.kind = kind;
        work.type = input(0) ? computedIn(*input(0)) : DType::F32;
        work.flops = flops;
        work.bytes = moved;
        m_work.push_back(work);
    }

    void product(Affine rows, Affine columns, Affine inner, Affine batch, Affine moved)
    {
        add(Kind::Product, {}, moved);
        KernelWork &work = m_work.back();
        work.rows = rows;
        work.columns = columns;
        work.inner = inner;
        work.batch = batch;
    }

    struct Sizes {
        Affine rows, columns, inner, batch;
        Affine moved;
    };

    /// A weight multiplies all rows at once; two activations are multiplied batch by batch.
    [[nodiscard]] Sizes sizesOfMatMul() const
    {
        const Tensor &a = *input(0);
        const Tensor &b = *input(1);
        const Shape &out = output(0)->shape;
        const std::size_t rank = a.shape.rank();
        const bool transA = m_op.integer("transA") != 0;
        Sizes sizes;
        sizes.columns = sizeOf(out.dims().back());
        sizes.inner = sizeOf(a.shape[rank - (transA ? 2 : 1)]);
        if (b.shape.rank() == 2 && !transA) {
            sizes.rows = Affine::through(static_cast<double>(a.shape.elements(1)) / sizes.inner.at(1),
                                         static_cast<double>(a.shape.elements(2)) / sizes.inner.at(2));
            sizes.batch = constant(1);
        } else {
            sizes.rows = sizeOf(out[out.rank() - 2]);
            const auto batchAt = [&](std::int64_t samples) {
                return static_cast<double>(out.elements(samples))
                    / (sizes.rows.at(static_cast<double>(samples)) * sizes.columns.at(static_cast<double>(samples)));
            };
            sizes.batch = Affine::through(batchAt(1), batchAt(2));
        }
        sizes.moved = bytes();
        return sizes;
    }

    void matMul()
    {
        const Sizes s = sizesOfMatMul();
        product(s.rows, s.columns, s.inner, s.batch, s.moved);
    }

    void matMulGradients()
    {
        const Sizes s = sizesOfMatMul();
        const auto wanted = [this](std::size_t i) {
            const Tensor *tensor = input(i);
            return tensor
                && (tensor->role == graph::TensorRole::Parameter || tensor->role == graph::TensorRole::Activation);
        };
        if (wanted(0))
            product(s.rows, s.inner, s.columns, s.batch, s.moved);
        if (wanted(1)) // a weight's is added up in float32, which is read and written
            product(s.inner, s.columns, s.rows, s.batch,
                    input(1)->role == graph::TensorRole::Parameter ? withSums(s.moved, *input(1)) : s.moved);
    }

    [[nodiscard]] Affine withSums(Affine moved, const Tensor &weight) const
    {
        moved.fixed += static_cast<double>(weight.shape.elements(1)) * 8 - bytesOf(weight).fixed;
        return moved;
    }

    /// Adds to the sum of earlier micro-batches: the sum is read as well as written, in the product's last step.
    void weightGradient()
    {
        const Shape &x = input(0)->shape;
        const Shape &made = output(0)->shape;
        const Affine inner =
            Affine::through(static_cast<double>(x.elements(1)) / static_cast<double>(x.dims().back().at(1)),
                            static_cast<double>(x.elements(2)) / static_cast<double>(x.dims().back().at(2)));
        Affine moved = bytes();
        moved.fixed += bytesOf(*output(0)).fixed;
        product(sizeOf(made[0]), sizeOf(made[1]), inner, constant(1), moved);
    }

    /// As an implicit product: a row for each pixel of @p image, (N, C, ...), columns its channels.
    void convolution(const Tensor &image, bool imageIsRows)
    {
        const double pixels = pixelsOf(image.shape);
        const double channels = static_cast<double>(image.shape[1].size);
        const Affine flops = figure(&graph::OpCostFigures::forward);
        const Affine rows = scaled(sizeOf(image.shape[0]), pixels);
        const double inner = rows.at(1) > 0 ? flops.at(1) / (2 * rows.at(1) * channels) : 0;
        if (imageIsRows)
            product(rows, constant(channels), constant(inner), constant(1), bytes());
        else
            product(constant(inner), constant(channels), rows, constant(1), bytes());
    }

    void convolutionGradients()
    {
        const Tensor &image = *output(0);
        const Affine rows = scaled(sizeOf(image.shape[0]), pixelsOf(image.shape));
        const double channels = static_cast<double>(image.shape[1].size);
        const double inner =
            rows.at(1) > 0 ? figure(&graph::OpCostFigures::forward).at(1) / (2 * rows.at(1) * channels) : 0;
        if (input(0)->role == graph::TensorRole::Activation)
            product(rows, constant(inner), constant(channels), constant(1), bytes());
        product(constant(inner), constant(channels), rows, constant(1), bytes());
    }

    static double pixelsOf(const Shape &shape)
    {
        double pixels = 1;
        for (std::size_t i = 2; i < shape.rank(); ++i)
            pixels *= static_cast<double>(shape[i].size);
        return pixels;
    }

    // --- attention in pieces: a product, scaling with mask and softmax in one, dropout, a product (Korthikanti et al.,
    // 2022, Figure 3)

    struct Core {
        double tokens, size;
        Affine pairs; ///< elements of the scores
        Affine batch; ///< heads of all samples
        Affine part;  ///< bytes of Q, which are those of K, V and the result
        double scoreBytes;
    };

    [[nodiscard]] Core coreOf(const Tensor &packed) const
    {
        Core core;
        const double heads = static_cast<double>(m_op.integer("heads"));
        core.tokens = static_cast<double>(packed.shape[1].size);
        core.size = static_cast<double>(packed.shape[2].size) / (3 * heads);
        core.batch = scaled(sizeOf(packed.shape[0]), heads);
        core.pairs = scaled(core.batch, core.tokens * core.tokens);
        core.part = scaled(bytesOf(packed), 1.0 / 3);
        core.scoreBytes = static_cast<double>(graph::sizeOf(computedIn(packed)));
        return core;
    }

    [[nodiscard]] static Affine plus(Affine a, Affine b) { return {a.fixed + b.fixed, a.perSample + b.perSample}; }

    void unfusedAttention(const Tensor &packed)
    {
        const Core c = coreOf(packed);
        const double s = c.scoreBytes;
        product(constant(c.tokens), constant(c.tokens), constant(c.size), c.batch,
                plus(scaled(c.part, 2), scaled(c.pairs, s)));
        add(Kind::Streaming, {}, scaled(c.pairs, 2 * s));     // softmax
        add(Kind::Streaming, {}, scaled(c.pairs, 2 * s + 1)); // dropout and its mask
        product(constant(c.tokens), constant(c.size), constant(c.tokens), c.batch,
                plus(scaled(c.part, 2), scaled(c.pairs, s)));
        add(Kind::Streaming, {},
            scaled(c.part, 2 * 4)); // Q, K, V and the result change places: heads first, tokens first
    }

    void unfusedAttentionGradient(const Tensor &packed)
    {
        const Core c = coreOf(packed);
        const double s = c.scoreBytes;
        const Affine one = plus(scaled(c.part, 2), scaled(c.pairs, s));
        product(constant(c.tokens), constant(c.tokens), constant(c.size), c.batch, one); // of the dropped probabilities
        product(constant(c.tokens), constant(c.size), constant(c.tokens), c.batch, one); // of V
        add(Kind::Streaming, {}, scaled(c.pairs, 2 * s + 1));                            // dropout
        add(Kind::Streaming, {}, scaled(c.pairs, 3 * s));                                // softmax
        product(constant(c.tokens), constant(c.size), constant(c.tokens), c.batch, one); // of Q
        product(constant(c.tokens), constant(c.size), constant(c.tokens), c.batch, one); // of K
        add(Kind::Streaming, {}, scaled(c.part, 2 * 4));
    }

    const graph::Graph &m_graph;
    const graph::Op &m_op;
    bool m_half;
    graph::OpCostFigures m_one, m_two;
    std::vector<KernelWork> m_work;
};

} // namespace

std::vector<KernelWork> forwardWork(const graph::Graph &graph, const graph::Op &op, bool half)
{
    return Writer(graph, op, half).forward();
}

std::vector<KernelWork> backwardWork(const graph::Graph &graph, const graph::Op &op, bool half)
{
    return Writer(graph, op, half).backward();
}

Collective collectiveOf(const graph::Op &op)
{
    switch (op.traits().collective) {
    case graph::Collective::AllGather: return Collective::AllGather;
    case graph::Collective::ReduceScatter: return Collective::ReduceScatter;
    case graph::Collective::AllToAll: return Collective::AllToAll;
    case graph::Collective::None:
    case graph::Collective::AllReduce: break;
    }
    return Collective::AllReduce;
}

} // namespace planloom::cost
