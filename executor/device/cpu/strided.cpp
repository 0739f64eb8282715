// SPDX-License-Identifier: Apache-2.0
#include "executor/device/cpu/strided.h"

#include <cstring>

namespace planloom::device {

namespace {

template <class T>
void copyElements(const LoopNest<2> &nest, const void *source, void *target, std::int64_t sourceOffset,
                  std::int64_t targetOffset)
{
    const T *from = static_cast<const T *>(source) + sourceOffset;
    T *to = static_cast<T *>(target) + targetOffset;
    const std::int64_t fromStride = nest.innerStrides()[0];
    const std::int64_t toStride = nest.innerStrides()[1];
    nest.run([=](const auto &offsets, std::int64_t n) {
        const T *x = from + offsets[0];
        T *y = to + offsets[1];
        if (fromStride == 1 && toStride == 1) {
            std::memcpy(y, x, static_cast<std::size_t>(n) * sizeof(T));
            return;
        }
        for (std::int64_t i = 0; i < n; ++i)
            y[i * toStride] = x[i * fromStride];
    });
}

/// One matrix, of `rows` along which the source is contiguous and `columns` along which the target is (or nearly so).
struct Transposition {
    std::int64_t rows, columns;
    std::int64_t rowStride;    ///< of the target
    std::int64_t columnSource; ///< strides along a row of the target
    std::int64_t columnTarget;
};

// 16 x 16 elements: 16 cache lines on either side, which stay until the block is done.
constexpr std::int64_t kBlock = 16;

template <class T>
void transposeRows(const Transposition &how, const T *from, T *to, std::int64_t firstRow, std::int64_t lastRow)
{
    for (std::int64_t r0 = firstRow; r0 < lastRow; r0 += kBlock) {
        for (std::int64_t c0 = 0; c0 < how.columns; c0 += kBlock) {
            const std::int64_t r1 = std::min(lastRow, r0 + kBlock);
            const std::int64_t c1 = std::min(how.columns, c0 + kBlock);
            for (std::int64_t r = r0; r < r1; ++r) {
                for (std::int64_t c = c0; c < c1; ++c)
                    to[r * how.rowStride + c * how.columnTarget] = from[r + c * how.columnSource];
            }
        }
    }
}

template <class T>
void transposeElements(const LoopNest<2> &outer, const Transposition &how, const T *from, T *to)
{
    // Matrices are walked one after the other unless there are many: then they, not their rows, are shared out.
    const std::int64_t matrices = outer.rows() * outer.inner();
    if (matrices < 8) {
        outer.runSerially([&](const auto &at) {
            parallelFor(how.rows, std::max(kBlock, rowGrain(how.columns) / kBlock * kBlock),
                        [&](std::int64_t begin, std::int64_t end) {
                            transposeRows(how, from + at[0], to + at[1], begin, end);
                        });
        });
        return;
    }
    const auto step = outer.innerStrides();
    outer.run([&](const auto &at, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i)
            transposeRows(how, from + at[0] + i * step[0], to + at[1] + i * step[1], 0, how.rows);
    });
}

template <class T>
void moveElements(const LoopNest<2> &nest, const LoopNest<2> &outer, const Transposition &how, const void *source,
                  void *target, std::int64_t sourceOffset, std::int64_t targetOffset)
{
    if (how.rows > 0)
        transposeElements(outer, how, static_cast<const T *>(source) + sourceOffset,
                          static_cast<T *>(target) + targetOffset);
    else
        copyElements<T>(nest, source, target, sourceOffset, targetOffset);
}

} // namespace

std::vector<std::int64_t> rowMajorStrides(const std::vector<std::int64_t> &dims)
{
    std::vector<std::int64_t> strides(dims.size(), 1);
    for (std::size_t d = dims.size(); d-- > 1;)
        strides[d - 1] = strides[d] * dims[d];
    return strides;
}

std::vector<std::int64_t> broadcastStrides(const std::vector<std::int64_t> &dims,
                                           const std::vector<std::int64_t> &target)
{
    if (dims.size() > target.size())
        return {};
    const auto own = rowMajorStrides(dims);
    std::vector<std::int64_t> strides(target.size(), 0);
    const std::size_t missing = target.size() - dims.size();
    for (std::size_t d = 0; d < dims.size(); ++d) {
        if (dims[d] != 1 && dims[d] != target[missing + d])
            return {};
        strides[missing + d] = dims[d] == 1 ? 0 : own[d];
    }
    return strides;
}

StridedCopy::StridedCopy(std::int64_t elementBytes, const std::vector<std::int64_t> &dims,
                         const std::vector<std::int64_t> &sourceStrides, const std::vector<std::int64_t> &targetStrides,
                         std::int64_t sourceOffset, std::int64_t targetOffset)
    : m_nest(dims, {sourceStrides, targetStrides}),
      m_outer({}, {}),
      m_elementBytes(elementBytes),
      m_sourceOffset(sourceOffset),
      m_targetOffset(targetOffset)
{
    findTransposition();
}

void StridedCopy::findTransposition()
{
    const auto &dims = m_nest.dims();
    const auto &strides = m_nest.strides();
    if (strides.back()[0] == 1 || strides.back()[0] == 0)
        return;
    for (std::size_t d = 0; d + 1 < dims.size(); ++d) {
        if (strides[d][0] != 1)
            continue;
        m_crossSize = dims[d];
        m_crossStride = strides[d][1];
        std::vector<std::int64_t> rest;
        std::array<std::vector<std::int64_t>, 2> restStrides;
        for (std::size_t other = 0; other + 1 < dims.size(); ++other) {
            if (other == d)
                continue;
            rest.push_back(dims[other]);
            restStrides[0].push_back(strides[other][0]);
            restStrides[1].push_back(strides[other][1]);
        }
        m_outer = LoopNest<2>(rest, restStrides);
        return;
    }
}

void StridedCopy::run(const void *source, void *target) const
{
    const Transposition how{m_crossSize, m_nest.inner(), m_crossStride, m_nest.innerStrides()[0],
                            m_nest.innerStrides()[1]};
    switch (m_elementBytes) {
    case 1: moveElements<std::uint8_t>(m_nest, m_outer, how, source, target, m_sourceOffset, m_targetOffset); break;
    case 2: moveElements<std::uint16_t>(m_nest, m_outer, how, source, target, m_sourceOffset, m_targetOffset); break;
    case 4: moveElements<std::uint32_t>(m_nest, m_outer, how, source, target, m_sourceOffset, m_targetOffset); break;
    default: moveElements<std::uint64_t>(m_nest, m_outer, how, source, target, m_sourceOffset, m_targetOffset); break;
    }
}

} // namespace planloom::device
