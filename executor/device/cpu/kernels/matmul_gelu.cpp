// SPDX-License-Identifier: Apache-2.0
// A product with GELU behind it, and the product whose result only GELU's gradient reads: both look at each part while
// it is in a cache.
#include "executor/device/cpu/gelu.h"
#include "executor/device/kernel_support.h"
#include "executor/device/cpu/matrix_product.h"

namespace planloom::device {

namespace {

struct Made2D {
    std::optional<MatrixProduct> product; ///< none where there are no rows
    std::int64_t columns = 0;
};

/// (.., k) times a matrix, as a product of matrices.
Result<Made2D> makeRows(const Request &request, onednn::Bias bias)
{
    if (request.in(0).empty() || request.in(1).size() != 2)
        return wrong(request, "needs rows and a matrix, got " + text(request.in(0)) + " and " + text(request.in(1)));
    const Dims rows{product(request.in(0), 0, request.in(0).size() - 1), request.in(0).back()};
    const onednn::View a = matrixView(rows, false, 2);
    const onednn::View b = matrixView(request.in(1), request.op.integer("transB") != 0, 2);
    const onednn::View y = matrixView({rows[0], b.dims[1]}, false, 2);
    if (a.dims[1] != b.dims[0] || product(y.dims) != request.outputs[0].elements())
        return wrong(request, text(request.in(0)) + " times " + text(request.in(1)) + " is not " + text(request.out()));
    if (a.dims[1] == 0)
        return cannot(request, "a product without terms");
    if (product(y.dims) == 0)
        return Made2D{{}, y.dims[1]};
    auto made = MatrixProduct::make(a, b, y, bias, 1.0F, false);
    if (!made)
        return cannot(request, made.error().message);
    return Made2D{std::move(*made), y.dims[1]};
}

bool byTanh(const Request &request) { return request.op.text("approximate", "none") == "tanh"; }

/// f(offset, n) for the rows of a part of a matrix that lies row after row.
template <class F>
void forRows(std::int64_t width, std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns, F f)
{
    for (std::int64_t r = row; r < row + rows; ++r)
        f(r * width + column, columns);
}

Made makeMatMulGelu(const Request &request)
{
    auto made = makeRows(request, onednn::Bias::Float);
    if (!made)
        return made.error();
    if (request.inputs[2].elements() != made->columns)
        return wrong(request, "bias " + text(request.in(2)) + " is not a row of " + text(request.out()));
    if (request.outputs[1].elements() != request.outputs[0].elements())
        return wrong(request, "outputs " + text(request.out(0)) + " and " + text(request.out(1)) + " differ");
    const auto gelu = byTanh(request) ? geluTanh : geluErf;
    return makeFunction([p = std::move(made->product), width = made->columns, gelu](Inputs in, Outputs out) mutable {
        float *y = floats(out[0]);
        float *z = floats(out[1]);
        if (!p)
            return;
        p->run(in[0], in[1], in[2], z,
               [=](std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) {
                   forRows(width, row, column, rows, columns,
                           [=](std::int64_t at, std::int64_t n) { gelu(z + at, y + at, n); });
               });
    });
}

Made makeMatMulGeluGrad(const Request &request)
{
    auto made = makeRows(request, onednn::Bias::None);
    if (!made)
        return made.error();
    if (request.inputs[2].elements() != request.outputs[0].elements())
        return wrong(request, "GELU's input " + text(request.in(2)) + " is not shaped like " + text(request.out()));
    const auto gradient = byTanh(request) ? geluTanhGrad : geluErfGrad;
    return makeFunction(
        [p = std::move(made->product), width = made->columns, gradient](Inputs in, Outputs out) mutable {
            const float *z = floats(in[2]);
            float *dz = floats(out[0]);
            if (!p)
                return;
            p->run(in[0], in[1], nullptr, dz,
                   [=](std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) {
                       forRows(width, row, column, rows, columns,
                               [=](std::int64_t at, std::int64_t n) { gradient(dz + at, z + at, dz + at, n); });
                   });
        });
}

constexpr KernelEntry kEntries[] = {
    {"MatMulGelu", "fff", "ff", makeMatMulGelu},
    {"MatMulGeluGrad", "fff", "f", makeMatMulGeluGrad},
};

} // namespace

std::span<const KernelEntry> matmulGeluKernels() { return kEntries; }

} // namespace planloom::device
