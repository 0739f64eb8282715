// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/product.h"

#include <memory>
#include <vector>

namespace planloom::cuda {

/// A product in which one matrix of bfloat16 has rows that do not all begin at multiples of 16 bytes, such as logits of
/// 50,257 classes: cuBLASLt is several times slower on it. So it is moved in pieces, transposed, to or from the
/// device's memory for pieces, where rows are aligned. Sums over pieces are float32, in a fixed order.
class UnalignedProduct {
public:
    /// nullptr: the product is none of these, too small to be worth it, or there is no memory; a MatrixProduct has to
    /// do.
    /// With @p row, one may be added to all rows of the result (runWith()).
    static std::unique_ptr<UnalignedProduct> make(CudaDevice &device, const ProductShape &shape, bool row = false);
    /// Y = A B, or Y += A B where Y is float32.
    void run(CudaQueue &queue, const void *a, const void *b, void *y, bool adds) const
    {
        run(queue, a, b, y, adds, {});
    }
    /// Y = A B, plus @p row to each of its rows. Of products whose result is the unaligned matrix.
    void runWith(CudaQueue &queue, const void *a, const void *b, void *y, const From &row) const
    {
        run(queue, a, b, y, false, row);
    }
    [[nodiscard]] bool addsRows() const { return m_way == Way::Result; }

private:
    /// The unaligned matrix, and what is made of a piece of it.
    enum class Way : std::uint8_t {
        Strided, ///< Y, which is left where it is: every 8th row begins alike, or every 4th or 2nd. From a certain
                 ///< column on, these rows are a matrix with aligned rows. The columns at both ends are a kernel's.
        Result, ///< Y: pieces are all columns of some rows
        Sum,    ///< A: pieces are some columns of as many rows as there is room for sums, which are made of all columns
        Columns, ///< A, which is transposed: pieces are some columns of all rows, and make rows of Y
    };
    UnalignedProduct(CudaDevice &device, const ProductShape &shape, Way way);
    void run(CudaQueue &queue, const void *a, const void *b, void *y, bool adds, const From &bias) const;
    void runStrided(CudaQueue &queue, const std::uint16_t *a, const std::uint16_t *b, std::uint16_t *y) const;
    [[nodiscard]] bool makeProducts();
    [[nodiscard]] bool makeProduct(std::int64_t rows, std::int64_t columns);
    [[nodiscard]] RowsAndPiece pieceAt(std::int64_t row, std::int64_t column) const;
    [[nodiscard]] const MatrixProduct &productOf(const RowsAndPiece &piece) const;

    /// Of pieces of one size.
    struct Sized {
        std::int64_t rows, columns;
        MatrixProduct product;
    };
    CudaDevice *m_device;
    ProductShape m_shape;
    Way m_way;
    std::int64_t m_rows = 0, m_columns = 0;           ///< of the unaligned matrix
    std::int64_t m_pieceRows = 0, m_pieceColumns = 0; ///< the last ones may have fewer; 0: there is no room
    std::int64_t m_step = 1; ///< Way::Strided: from one row to the next of those that begin alike
    std::vector<Sized> m_products;
};

} // namespace planloom::cuda
