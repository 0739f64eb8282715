// SPDX-License-Identifier: Apache-2.0
// MatMul, Gemm and the weight gradient of MatMul.
#include "executor/device/adding_kernel.h"
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/matrix_product.h"
#include "executor/device/cpu/strided.h"

#include <cstring>

namespace planloom::device {

namespace {

using onednn::Bias;
using onednn::View;

/// A product over the dimension k that has no terms: the result is 0 and oneDNN need not know.
Made makeZeros(std::int64_t bytes)
{
    return makeFunction([bytes](Inputs, Outputs out) { std::memset(out[0], 0, static_cast<std::size_t>(bytes)); });
}

Bias biasOf(const Argument &row) { return row.type == graph::DType::BF16 ? Bias::Half : Bias::Float; }

/// @p bias: input 2 is added to every row.
Made makeProduct(const Request &request, const View &a, const View &b, const View &y, bool bias = false)
{
    const std::int64_t elements = product(y.dims);
    if (elements == 0 || (a.dims.back() == 0 && !bias))
        return makeZeros(elements * graph::sizeOf(request.outputs[0].type));
    const Bias row = bias ? biasOf(request.inputs[2]) : Bias::None;
    auto made = MatrixProduct::make(typed(a, request.inputs[0]), typed(b, request.inputs[1]),
                                    typed(y, request.outputs[0]), row, 1.0F, false);
    if (!made)
        return cannot(request, made.error().message);
    return makeFunction([p = std::move(*made), bias](Inputs in, Outputs out) mutable {
        p.run(in[0], in[1], bias ? in[2] : nullptr, out[0]);
    });
}

Made makeMatMul(const Request &request)
{
    Dims a = request.in(0);
    Dims b = request.in(1);
    if (a.empty() || b.empty())
        return wrong(request, "a scalar has no matrix product");
    bool transA = request.op.integer("transA") != 0;
    const bool transB = request.op.integer("transB") != 0;
    if (a.size() == 1)
        a.insert(a.begin(), 1);
    if (b.size() == 1)
        b.push_back(1);
    if (b.size() == 2 && !transA) // a weight: the leading dimensions are just rows
        a = {product(a, 0, a.size() - 1), a.back()};
    const std::size_t rank = std::max(a.size(), b.size());
    const View viewA = matrixView(a, transA, rank);
    const View viewB = matrixView(b, transB, rank);
    View viewY{Dims(rank), {}};
    for (std::size_t d = 0; d + 2 < rank; ++d) {
        viewY.dims[d] = viewA.dims[d] == 1 ? viewB.dims[d] : viewA.dims[d];
        if (viewB.dims[d] != 1 && viewB.dims[d] != viewY.dims[d])
            return wrong(request, text(request.in(0)) + " and " + text(request.in(1)) + " do not broadcast");
    }
    viewY.dims[rank - 2] = viewA.dims[rank - 2];
    viewY.dims[rank - 1] = viewB.dims[rank - 1];
    viewY.strides = rowMajorStrides(viewY.dims);
    if (viewA.dims[rank - 1] != viewB.dims[rank - 2] || product(viewY.dims) != request.outputs[0].elements())
        return wrong(request, text(request.in(0)) + " times " + text(request.in(1)) + " is not " + text(request.out()));
    const bool bias = request.hasInput(2);
    if (bias && (b.size() != 2 || request.inputs[2].elements() != viewY.dims[rank - 1]))
        return wrong(request, "bias " + text(request.in(2)) + " is not a row of " + text(request.out()));
    return makeProduct(request, viewA, viewB, viewY, bias);
}

/// The sum over no rows.
class NoTerms final : public AddingKernel {
public:
    explicit NoTerms(std::int64_t elements) : m_elements(elements) {}
    void run(Inputs, Outputs out) override { std::fill_n(floats(out[0]), m_elements, 0.0F); }
    void add(Inputs, Outputs) override {}

private:
    std::int64_t m_elements;
};

class WeightGradient final : public AddingKernel {
public:
    WeightGradient(MatrixProduct writes, MatrixProduct adds) : m_writes(std::move(writes)), m_adds(std::move(adds)) {}
    void run(Inputs in, Outputs out) override { m_writes.run(in[0], in[1], nullptr, out[0]); }
    void add(Inputs in, Outputs out) override { m_adds.run(in[0], in[1], nullptr, out[0]); }

private:
    MatrixProduct m_writes;
    MatrixProduct m_adds;
};

/// X (.., K), dY (.., M) -> (K, M): the sum over all rows.
Made makeMatMulWeightGrad(const Request &request)
{
    const Dims &x = request.in(0);
    const Dims &dy = request.in(1);
    if (x.empty() || dy.empty() || request.out().size() != 2)
        return wrong(request, "needs matrices, got " + text(x) + " and " + text(dy));
    const std::int64_t k = x.back();
    const std::int64_t m = dy.back();
    const std::int64_t rows = product(x, 0, x.size() - 1);
    if (rows != product(dy, 0, dy.size() - 1) || request.out() != Dims{k, m})
        return wrong(request, text(x) + " and " + text(dy) + " do not make " + text(request.out()));
    const View a{{k, rows}, {1, k}};
    const View b{{rows, m}, {m, 1}};
    const View y{{k, m}, {m, 1}};
    if (rows == 0 || k == 0 || m == 0)
        return request.outputs[0].type == graph::DType::F32 ? Made(std::make_unique<NoTerms>(k * m))
                                                            : makeProduct(request, a, b, y);
    if (request.outputs[0].type != graph::DType::F32)
        return makeProduct(request, a, b, y);
    const View left = typed(a, request.inputs[0]);
    const View right = typed(b, request.inputs[1]);
    auto writes = MatrixProduct::make(left, right, y, Bias::None, 1.0F, false);
    auto adds = MatrixProduct::make(left, right, y, Bias::None, 1.0F, true);
    if (!writes || !adds)
        return cannot(request, (writes ? adds : writes).error().message);
    return Made(std::make_unique<WeightGradient>(std::move(*writes), std::move(*adds)));
}

struct GemmShape {
    View a, b, y;
    float alpha = 1, beta = 1;
};

/// Bias as a row that oneDNN adds by itself.
bool isPlainBias(const Request &request, const GemmShape &shape)
{
    if (!request.hasInput(2) || shape.alpha != 1.0F || shape.beta != 1.0F || request.in(2).empty())
        return false;
    return request.in(2).back() == shape.y.dims[1] && request.inputs[2].elements() == shape.y.dims[1];
}

/// y += beta * c where c is no plain row.
Result<LoopNest<2>> addendNest(const Request &request)
{
    const auto strides = broadcastStrides(request.in(2), request.out());
    if (strides.size() != request.out().size())
        return wrong(request, text(request.in(2)) + " does not broadcast to " + text(request.out()));
    return LoopNest<2>(request.out(), {strides, rowMajorStrides(request.out())});
}

void addScaled(const LoopNest<2> &nest, float beta, const float *c, float *y)
{
    const std::int64_t stepC = nest.innerStrides()[0];
    const std::int64_t stepY = nest.innerStrides()[1];
    nest.run([=](const auto &at, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i)
            y[at[1] + i * stepY] += beta * c[at[0] + i * stepC];
    });
}

Made makeGemm(const Request &request)
{
    if (request.in(0).size() != 2 || request.in(1).size() != 2)
        return wrong(request, "needs two matrices, got " + text(request.in(0)) + " and " + text(request.in(1)));
    GemmShape shape;
    shape.a = matrixView(request.in(0), request.op.integer("transA") != 0, 2);
    shape.b = matrixView(request.in(1), request.op.integer("transB") != 0, 2);
    shape.y = matrixView(request.out(), false, 2);
    shape.alpha = static_cast<float>(request.op.number("alpha", 1.0));
    shape.beta = static_cast<float>(request.op.number("beta", 1.0));
    if (shape.a.dims[1] != shape.b.dims[0] || shape.y.dims != Dims{shape.a.dims[0], shape.b.dims[1]})
        return wrong(request, text(shape.a.dims) + " times " + text(shape.b.dims) + " is not " + text(shape.y.dims));
    if (product(shape.y.dims) == 0)
        return makeZeros(0);
    if (isPlainBias(request, shape))
        return makeProduct(request, shape.a, shape.b, shape.y, true);
    auto made = MatrixProduct::make(shape.a, shape.b, shape.y, Bias::None, shape.alpha, false);
    if (!made)
        return cannot(request, made.error().message);
    std::vector<LoopNest<2>> addend;
    if (request.hasInput(2) && shape.beta != 0.0F) {
        auto nest = addendNest(request);
        if (!nest)
            return nest.error();
        addend.push_back(std::move(*nest));
    }
    return makeFunction(
        [p = std::move(*made), addend = std::move(addend), beta = shape.beta](Inputs in, Outputs out) mutable {
            p.run(in[0], in[1], nullptr, out[0]);
            if (!addend.empty())
                addScaled(addend[0], beta, floats(in[2]), floats(out[0]));
        });
}

constexpr KernelEntry kEntries[] = {
    {"Gemm", "fff?", "f", makeGemm},
    {"MatMul", "fff?", "f", makeMatMul},
    {"MatMulWeightGrad", "ff", "f", makeMatMulWeightGrad},
};

} // namespace

std::span<const KernelEntry> matmulKernels() { return kEntries; }

Made makeHalfProduct(const Request &request)
{
    const bool whole = request.hasInput(0) && request.hasInput(1) && request.hasOutput(0);
    if (whole && request.op.type == "MatMul")
        return makeMatMul(request);
    if (whole && request.op.type == "MatMulWeightGrad")
        return makeMatMulWeightGrad(request);
    return cannot(request, "has no kernel that computes in bfloat16");
}

} // namespace planloom::device
