// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cuda/unaligned_product.h"

#include <algorithm>
#include <optional>

namespace planloom::cuda {

namespace {

constexpr std::int64_t kHalf = 2;   ///< bytes of an element
constexpr std::int64_t kUnit = 8;   ///< elements in 16 bytes
constexpr std::int64_t kTile = 128; ///< side of what a multiprocessor makes of a product

bool isWhole(std::int64_t elements) { return elements % kUnit == 0; }

/// Into what @p all rows or columns are cut if there is room for @p most: parts of whole tiles, as even as may be.
std::int64_t partOf(std::int64_t all, std::int64_t most)
{
    if (all <= most)
        return all;
    const std::int64_t step = most < kTile ? kUnit : kTile;
    const std::int64_t fits = most / step * step;
    if (fits == 0)
        return 0;
    for (std::int64_t part = fits; 2 * part > fits; part -= step)
        if (all % part == 0)
            return part;
    const std::int64_t parts = (all + fits - 1) / fits;
    return std::min(fits, ((all + parts - 1) / parts + step - 1) / step * step);
}

} // namespace

UnalignedProduct::UnalignedProduct(CudaDevice &device, const ProductShape &shape, Way way)
    : m_device(&device),
      m_shape(shape),
      m_way(way),
      m_rows(way == Way::Columns ? shape.inner : shape.rows),
      m_columns(way == Way::Strided || way == Way::Result ? shape.columns
                                                          : (way == Way::Sum ? shape.inner : shape.rows))
{
    while (way == Way::Strided && !isWhole(m_step * m_columns))
        m_step *= 2;
    if (way == Way::Strided) {
        m_pieceRows = m_rows / m_step;
        m_pieceColumns = std::max<std::int64_t>(0, m_columns - (kUnit - 1)) / kUnit * kUnit;
        return;
    }
    const std::int64_t room = device.provider().pieceBytes / kHalf;
    const std::int64_t sums = device.provider().sumBytes / static_cast<std::int64_t>(sizeof(float));
    m_pieceRows = way == Way::Columns ? m_rows : partOf(m_rows, (way == Way::Sum ? sums : room) / m_shape.columns);
    m_pieceColumns = way == Way::Result || m_pieceRows == 0 ? m_columns : partOf(m_columns, room / m_pieceRows);
}

std::unique_ptr<UnalignedProduct> UnalignedProduct::make(CudaDevice &device, const ProductShape &shape, bool row)
{
    const bool half = shape.kindA == Kind::BF16 && shape.kindB == Kind::BF16;
    if (!half || device.products() == nullptr || shape.batch != 1 || shape.adds || shape.epilogue != Epilogue::None)
        return nullptr;
    std::optional<Way> way;
    const bool alignedRows = isWhole(shape.rows);
    const bool inner = isWhole(shape.inner);
    const bool columns = isWhole(shape.columns);
    if (shape.kindY == Kind::BF16 && !shape.transA && shape.transB && alignedRows && inner && !columns)
        way = row || shape.columns < 2 * kUnit ? Way::Result : Way::Strided;
    if (shape.kindY == Kind::BF16 && !shape.transA && !shape.transB && alignedRows && columns && !inner)
        way = Way::Sum;
    if (shape.transA && !shape.transB && inner && columns && !alignedRows)
        way = Way::Columns;
    if (!way)
        return nullptr;
    std::unique_ptr<UnalignedProduct> made(new UnalignedProduct(device, shape, *way));
    const bool isLarge = made->m_rows * made->m_columns >= device.provider().leastUnaligned;
    return isLarge && made->makeProducts() && (way == Way::Strided || device.makePieces()) ? std::move(made) : nullptr;
}

bool UnalignedProduct::makeProducts()
{
    if (m_pieceRows == 0 || m_pieceColumns == 0)
        return false;
    if (m_way == Way::Strided)
        return makeProduct(m_pieceRows, m_pieceColumns);
    for (const std::int64_t rows : {m_pieceRows, m_rows % m_pieceRows})
        for (const std::int64_t columns : {m_pieceColumns, m_columns % m_pieceColumns})
            if (rows > 0 && columns > 0 && !makeProduct(rows, columns))
                return false;
    return true;
}

bool UnalignedProduct::makeProduct(std::int64_t rows, std::int64_t columns)
{
    ProductShape shape = m_shape;
    switch (m_way) {
    case Way::Strided:
        shape.rows = rows;
        shape.columns = columns;
        shape.leadingA = m_step * m_shape.inner;
        shape.leadingY = m_step * m_columns;
        break;
    case Way::Result: // transposed, as B A'
        shape.rows = columns;
        shape.columns = rows;
        break;
    case Way::Sum:
        shape.transA = true; // as pieces lie
        shape.kindY = Kind::F32;
        shape.rows = rows;
        shape.inner = columns;
        break;
    case Way::Columns:
        shape.transA = false;
        shape.rows = columns;
        break;
    }
    auto product = MatrixProduct::make(*m_device, shape);
    if (product)
        m_products.push_back({rows, columns, std::move(*product)});
    return product.ok();
}

/// Without addresses.
RowsAndPiece UnalignedProduct::pieceAt(std::int64_t row, std::int64_t column) const
{
    RowsAndPiece piece;
    piece.rows = std::min(m_pieceRows, m_rows - row);
    piece.columns = std::min(m_pieceColumns, m_columns - column);
    piece.leading = m_columns;
    return piece;
}

const MatrixProduct &UnalignedProduct::productOf(const RowsAndPiece &piece) const
{
    return std::find_if(m_products.begin(), m_products.end(),
                        [&](const Sized &each) { return each.rows == piece.rows && each.columns == piece.columns; })
        ->product;
}

void UnalignedProduct::run(CudaQueue &queue, const void *a, const void *b, void *y, bool adds, const From &bias) const
{
    if (m_way == Way::Strided) {
        runStrided(queue, static_cast<const std::uint16_t *>(a), static_cast<const std::uint16_t *>(b),
                   static_cast<std::uint16_t *>(y));
        return;
    }
    m_device->workspace(queue); // and with it the memory for pieces
    std::byte *const room = m_device->pieces();
    const auto *const halvesA = static_cast<const std::uint16_t *>(a);
    const auto *const halvesB = static_cast<const std::uint16_t *>(b);
    const std::int64_t bytesOfY = m_shape.kindY == Kind::BF16 ? kHalf : std::int64_t{sizeof(float)};
    const auto start = [&](auto kernel, const RowsAndPiece &piece, const void *from, void *to) {
        static_cast<RowsAndPiece &>(kernel) = piece;
        kernel.from = from;
        kernel.to = to;
        queue.rows(kernel, kernel.tiles(), RowsAndPiece::kShared);
    };
    for (std::int64_t row = 0; row < m_rows; row += m_pieceRows) {
        void *const sums = room + m_device->provider().pieceBytes;
        for (std::int64_t column = 0; column < m_columns; column += m_pieceColumns) {
            const RowsAndPiece piece = pieceAt(row, column);
            const MatrixProduct &product = productOf(piece);
            if (m_way == Way::Result) {
                product.run(queue, b, halvesA + row * m_shape.inner, room);
                TurnPiece rows;
                rows.bias = bias;
                start(rows, piece, room, static_cast<std::uint16_t *>(y) + row * m_columns);
                continue;
            }
            start(TurnRows(), piece, halvesA + row * m_columns + column, room);
            const bool isSum = m_way == Way::Sum;
            void *const to = isSum ? sums : static_cast<std::byte *>(y) + column * m_shape.columns * bytesOfY;
            const void *const factor = isSum ? halvesB + column * m_shape.columns : b;
            if (isSum ? column > 0 : adds)
                product.add(queue, room, factor, to);
            else
                product.run(queue, room, factor, to);
        }
        if (m_way != Way::Sum)
            continue;
        Unary<function::Identity> rounded;
        rounded.n = std::min(m_pieceRows, m_rows - row) * m_shape.columns;
        rounded.x = {sums, Kind::F32};
        rounded.y = {static_cast<std::uint16_t *>(y) + row * m_shape.columns, Kind::BF16, false};
        queue.elements(rounded, rounded.n);
    }
}

void UnalignedProduct::runStrided(CudaQueue &queue, const std::uint16_t *a, const std::uint16_t *b,
                                  std::uint16_t *y) const
{
    for (std::int64_t row = 0; row < m_step; ++row) {
        const std::int64_t column = EndColumns::mainOf(row, m_columns);
        m_products.front().product.run(queue, a + row * m_shape.inner, b + column * m_shape.inner,
                                       y + row * m_columns + column);
    }
    EndColumns ends;
    ends.x = a;
    ends.w = b;
    ends.y = y;
    ends.rows = m_rows;
    ends.inner = m_shape.inner;
    ends.columns = m_columns;
    ends.main = m_pieceColumns;
    queue.items(ends, ends.items());
}

} // namespace planloom::cuda
