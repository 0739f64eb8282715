// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/matrix_product.h"

#include "executor/device/cpu/parallel.h"
#include "executor/device/cpu/strided.h"

namespace planloom::device {

using onednn::Bias;
using onednn::View;

View matrixView(const Dims &dims, bool transposed, std::size_t rank)
{
    View view{Dims(rank - dims.size(), 1), {}};
    view.dims.insert(view.dims.end(), dims.begin(), dims.end());
    view.strides = rowMajorStrides(view.dims);
    if (transposed) {
        std::swap(view.dims[rank - 1], view.dims[rank - 2]);
        std::swap(view.strides[rank - 1], view.strides[rank - 2]);
    }
    return view;
}

View typed(View view, const Argument &argument)
{
    view.half = argument.type == graph::DType::BF16;
    return view;
}

Result<MatrixProduct> MatrixProduct::make(const View &a, const View &b, const View &y, Bias bias, float alpha, bool add)
{
    MatrixProduct made;
    made.m_add = add;
    const bool floats =
        !a.half && !b.half && !y.half && bias != Bias::Half && alpha == 1.0F && !(add && bias != Bias::None);
    made.m_packed.m = y.dims[y.dims.size() - 2];
    made.m_packed.n = y.dims.back();
    if (floats && y.dims.size() == 2 && y.strides[1] == 1) {
        made.m_packed = {y.dims[0],   y.dims[1], a.dims[1], {a.strides[0], a.strides[1]}, {b.strides[0], b.strides[1]},
                         y.strides[0]};
        if (made.m_packed.pays())
            return made;
    }
    auto primitive = onednn::matmul(a, b, y, bias, alpha, add);
    if (!primitive)
        return primitive.error();
    made.m_primitive = std::move(*primitive);
    return made;
}

void MatrixProduct::run(const void *a, const void *b, const void *bias, void *y, const PartDone &done)
{
    if (!m_primitive) {
        m_packed.run(floats(a), floats(b), bias != nullptr ? floats(bias) : nullptr, floats(y), m_add, done);
        return;
    }
    m_primitive->set(0, a);
    m_primitive->set(1, b);
    m_primitive->set(2, y);
    if (bias != nullptr)
        m_primitive->set(3, bias);
    m_primitive->run();
    if (done)
        parallelFor(m_packed.m, rowGrain(m_packed.n),
                    [&](std::int64_t begin, std::int64_t end) { done(begin, 0, end - begin, m_packed.n); });
}

} // namespace planloom::device
