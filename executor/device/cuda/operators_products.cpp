// SPDX-License-Identifier: Apache-2.0
// Products of matrices, with what is added behind them.
#include "executor/device/cuda/operator_support.h"
#include "executor/device/cuda/unaligned_product.h"

#include <algorithm>

namespace planloom::cuda {

namespace {

/// A (.., K) or transposed, times B, as cuBLASLt can compute it; nullopt: not in one call.
std::optional<ProductShape> shapeOfProduct(const Request &request)
{
    if (!request.floatInputs(2) || !request.floatOutputs(1))
        return std::nullopt;
    Dims a = request.in(0);
    const Dims &b = request.in(1);
    if (a.size() < 2 || b.size() < 2)
        return std::nullopt;
    ProductShape shape;
    shape.transA = request.op.integer("transA") != 0;
    shape.transB = request.op.integer("transB") != 0;
    if (b.size() == 2 && !shape.transA) // a weight: the leading dimensions are just rows
        a = {productOf(a, 0, a.size() - 1), a.back()};
    const std::size_t lastA = a.size() - 1;
    const std::size_t lastB = b.size() - 1;
    shape.rows = shape.transA ? a[lastA] : a[lastA - 1];
    shape.inner = shape.transA ? a[lastA - 1] : a[lastA];
    shape.columns = shape.transB ? b[lastB - 1] : b[lastB];
    const std::int64_t innerB = shape.transB ? b[lastB] : b[lastB - 1];
    const Dims batchA(a.begin(), a.end() - 2);
    const Dims batchB(b.begin(), b.end() - 2);
    const std::int64_t countA = productOf(batchA);
    const std::int64_t countB = productOf(batchB);
    shape.batch = std::max(countA, countB);
    if (innerB != shape.inner || (countA != 1 && countB != 1 && batchA != batchB)
        || shape.batch * shape.rows * shape.columns != request.outSize(0))
        return std::nullopt;
    shape.strideA = countA == 1 ? 0 : shape.rows * shape.inner;
    shape.strideB = countB == 1 ? 0 : shape.inner * shape.columns;
    shape.kindA = kindOf(request.inputs[0]);
    shape.kindB = kindOf(request.inputs[1]);
    shape.kindY = kindOf(request.outputs[0]);
    return shape;
}

/// A row that is added to every row of the product.
std::optional<BiasAct> biasOf(const Request &request, const ProductShape &shape)
{
    if (shape.batch != 1 || request.inSize(2) != shape.columns || !isFloat(request.inputs[2]) || request.in(2).empty()
        || request.in(2).back() != shape.columns)
        return std::nullopt;
    BiasAct kernel;
    kernel.x = {nullptr, shape.kindY};
    kernel.bias = from(request, 2);
    kernel.y = to(request, 0);
    kernel.rows = shape.rows;
    kernel.columns = shape.columns;
    return kernel;
}

/// A product in one call, or in pieces where that is faster.
class Product {
public:
    static Result<Product> make(const Request &request, const ProductShape &shape)
    {
        Product made = inPieces(request, shape);
        if (made.m_pieces != nullptr)
            return made;
        auto whole = MatrixProduct::make(request.device, shape);
        if (!whole)
            return whole.error();
        made.m_whole = std::make_shared<MatrixProduct>(std::move(*whole));
        return made;
    }
    /// Nothing if one call is faster.
    static Product inPieces(const Request &request, const ProductShape &shape, bool biased = false)
    {
        Product made;
        made.m_pieces = UnalignedProduct::make(request.device, shape, biased);
        return made;
    }
    void run(CudaQueue &queue, const void *a, const void *b, void *y, bool adds = false) const
    {
        if (m_pieces != nullptr)
            m_pieces->run(queue, a, b, y, adds);
        else if (adds)
            m_whole->add(queue, a, b, y);
        else
            m_whole->run(queue, a, b, y);
    }
    [[nodiscard]] bool isInPieces() const { return m_pieces != nullptr; }
    /// In pieces: whether a row can be added on the way.
    [[nodiscard]] const UnalignedProduct *withRows() const
    {
        return m_pieces != nullptr && m_pieces->addsRows() ? m_pieces.get() : nullptr;
    }

private:
    std::shared_ptr<const UnalignedProduct> m_pieces;
    std::shared_ptr<const MatrixProduct> m_whole;
};

/// A product with a row added, or GELU behind it, in one call.
class ProductWithBias {
public:
    /// Errors: Unsupported where cuBLASLt has no algorithm for that; those of the device.
    static Result<ProductWithBias> make(const Request &request, ProductShape shape, Epilogue epilogue)
    {
        ProductWithBias made;
        shape.epilogue = epilogue;
        const Kind own = kindOf(request.inputs[2]);
        if (own != shape.kindY && (own != Kind::F32 || shape.kindY != Kind::BF16))
            return unsupported("the bias has another type than the product");
        auto product = MatrixProduct::make(request.device, shape);
        if (!product)
            return product.error();
        made.m_product = std::make_shared<MatrixProduct>(std::move(*product));
        if (own == shape.kindY)
            return made;
        auto rounded = scratchOf<std::uint16_t>(request, shape.columns);
        if (!rounded)
            return rounded.error();
        made.m_bias = std::move(*rounded);
        made.m_round.x = {nullptr, own};
        made.m_round.y = {made.m_bias->data(), shape.kindY, false};
        made.m_round.n = shape.columns;
        return made;
    }
    void run(CudaQueue &queue, Inputs in, void *y, const void *auxiliary)
    {
        const void *bias = in[2];
        if (m_bias != nullptr) {
            m_round.x.data = bias;
            queue.elements(m_round, m_round.n);
            bias = m_bias->data();
        }
        m_product->run(queue, in[0], in[1], y, {bias, auxiliary});
    }

private:
    std::shared_ptr<const MatrixProduct> m_product;
    std::shared_ptr<device::Memory> m_bias; ///< in the product's type; nullptr: it has it
    Unary<function::Identity> m_round;
};

Made makeProduct(const Request &request)
{
    const auto shape = shapeOfProduct(request);
    const bool biased = request.hasInput(2);
    const auto bias = shape && biased ? biasOf(request, *shape) : std::nullopt;
    if (!shape || (biased && !bias))
        return onlyOnHost(request);
    Result<Product> product = Product::inPieces(request, *shape, biased);
    if (biased && !product->isInPieces()) {
        auto whole = ProductWithBias::make(request, *shape, Epilogue::Bias);
        if (whole)
            return makeFunction([product = std::move(*whole)](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
                product.run(queue, in, out[0], nullptr);
            });
        if (whole.error().code != ErrorCode::Unsupported)
            return whole.error();
    }
    if (!product->isInPieces())
        product = Product::make(request, *shape);
    if (!product)
        return product.error();
    return makeFunction([product = std::move(*product), kernel = bias.value_or(BiasAct()),
                         biased](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        if (biased && product.withRows() != nullptr) {
            product.withRows()->runWith(queue, in[0], in[1], out[0], {in[2], kernel.bias.kind});
            return;
        }
        product.run(queue, in[0], in[1], out[0]);
        if (!biased)
            return;
        kernel.x.data = out[0];
        kernel.bias.data = in[2];
        kernel.y.data = out[0];
        queue.elements(kernel, kernel.rows * kernel.columns);
    });
}

Made makeGemm(const Request &request)
{
    const bool plain = request.op.number("alpha", 1.0) == 1.0 && request.op.number("beta", 1.0) == 1.0;
    if (!plain || request.in(0).size() != 2 || request.in(1).size() != 2)
        return onlyOnHost(request);
    return makeProduct(request);
}

bool byTanh(const Request &request) { return request.op.text("approximate", "none") == "tanh"; }

Made makeMatMulGelu(const Request &request)
{
    if (!request.hasInput(2) || !request.hasOutput(1) || !request.floatOutputs(2)
        || request.outSize(1) != request.outSize(0) || request.outputs[0].type != request.outputs[1].type)
        return onlyOnHost(request);
    const auto shape = shapeOfProduct(request);
    const auto bias = shape ? biasOf(request, *shape) : std::nullopt;
    if (!bias)
        return onlyOnHost(request);
    if (byTanh(request)) {
        auto whole = ProductWithBias::make(request, *shape, Epilogue::GeluBias);
        if (whole)
            return makeFunction([product = std::move(*whole)](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
                product.run(queue, in, out[0], out[1]);
            });
        if (whole.error().code != ErrorCode::Unsupported)
            return whole.error();
    }
    auto product = MatrixProduct::make(request.device, *shape);
    if (!product)
        return product.error();
    BiasAct kernel = *bias;
    kernel.z = to(request, 1);
    kernel.gelu = byTanh(request) ? 2 : 1;
    auto shared = std::make_shared<MatrixProduct>(std::move(*product));
    return makeFunction([shared, kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        shared->run(queue, in[0], in[1], out[1]);
        kernel.x.data = out[1];
        kernel.bias.data = in[2];
        kernel.y.data = out[0];
        kernel.z.data = out[1];
        queue.elements(kernel, kernel.rows * kernel.columns);
    });
}

template <class F>
Made makeProductGradient(const Request &request, MatrixProduct product)
{
    UnaryGradient<F> kernel;
    kernel.dy = {nullptr, kindOf(request.outputs[0])};
    kernel.v = from(request, 2);
    kernel.dx = to(request, 0);
    kernel.n = request.outSize(0);
    auto shared = std::make_shared<MatrixProduct>(std::move(product));
    return makeFunction([shared, kernel](CudaQueue &queue, bool, Inputs in, Outputs out) mutable {
        shared->run(queue, in[0], in[1], out[0]);
        kernel.dy.data = out[0];
        kernel.v.data = in[2];
        kernel.dx.data = out[0];
        queue.elements(kernel, kernel.n);
    });
}

Made makeMatMulGeluGrad(const Request &request)
{
    const auto shape = shapeOfProduct(request);
    if (!shape || request.inSize(2) != request.outSize(0) || !isFloat(request.inputs[2]))
        return onlyOnHost(request);
    // The product's own epilogue for this takes longer: 113 us of (8192, 768) (768, 3072) in bfloat16 on an H200, where
    // the product takes 57 us and the kernel moves 150 MB.
    auto product = MatrixProduct::make(request.device, *shape);
    if (!product)
        return product.error();
    return byTanh(request) ? makeProductGradient<function::GeluTanhGrad>(request, std::move(*product))
                           : makeProductGradient<function::GeluErfGrad>(request, std::move(*product));
}

/// A (.., K), B (.., M) -> (K, M): the sum over all rows.
Made makeMatMulWeightGrad(const Request &request)
{
    if (!request.floatInputs(2) || !request.floatOutputs(1) || request.in(0).empty() || request.in(1).empty()
        || request.out().size() != 2)
        return onlyOnHost(request);
    ProductShape shape;
    shape.transA = true;
    shape.rows = request.in(0).back();
    shape.columns = request.in(1).back();
    shape.inner = productOf(request.in(0), 0, request.in(0).size() - 1);
    shape.kindA = kindOf(request.inputs[0]);
    shape.kindB = kindOf(request.inputs[1]);
    shape.kindY = kindOf(request.outputs[0]);
    if (shape.inner != productOf(request.in(1), 0, request.in(1).size() - 1)
        || request.out() != Dims{shape.rows, shape.columns})
        return onlyOnHost(request);
    auto product = Product::make(request, shape);
    if (!product)
        return product.error();
    const std::uint32_t capabilities = isFull(request.outputs[0]) ? device::DeviceKernel::kAdds : 0U;
    return makeFunction([product =
                             std::move(*product)](CudaQueue &queue, bool adds, Inputs in,
                                                  Outputs out) { product.run(queue, in[0], in[1], out[0], adds); },
                        capabilities);
}

constexpr OperatorEntry kProducts[] = {
    {"Gemm", makeGemm},
    {"MatMul", makeProduct},
    {"MatMulGelu", makeMatMulGelu},
    {"MatMulGeluGrad", makeMatMulGeluGrad},
    {"MatMulWeightGrad", makeMatMulWeightGrad},
};

} // namespace

std::span<const OperatorEntry> productOperators() { return kProducts; }

} // namespace planloom::cuda
