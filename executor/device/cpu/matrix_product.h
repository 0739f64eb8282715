// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/kernel_support.h"
#include "executor/device/cpu/onednn.h"
#include "executor/device/cpu/packed_product.h"

#include <optional>

namespace planloom::device {

/// The last two dimensions, swapped if @p transposed, behind the leading ones broadcast to @p rank.
onednn::View matrixView(const Dims &dims, bool transposed, std::size_t rank);

/// The view with the argument's data type.
onednn::View typed(onednn::View view, const Argument &argument);

/// y = alpha a b, plus a row if there is a bias; or y += alpha a b. By oneDNN unless packed_product.h is faster here.
class MatrixProduct {
public:
    /// Errors: Unsupported, as onednn::matmul.
    static Result<MatrixProduct> make(const onednn::View &a, const onednn::View &b, const onednn::View &y,
                                      onednn::Bias bias, float alpha, bool add);

    /// @p done as of PackedProduct; for a product of float32 matrices only.
    void run(const void *a, const void *b, const void *bias, void *y, const PartDone &done = {});

private:
    PackedProduct m_packed; ///< used where there is no primitive
    std::optional<onednn::Primitive> m_primitive;
    bool m_add = false;
};

} // namespace planloom::device
