// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cpu/parallel.h"

#include <array>
#include <cstdint>
#include <vector>

namespace planloom::device {

/// Strides, in elements, of a row-major tensor.
std::vector<std::int64_t> rowMajorStrides(const std::vector<std::int64_t> &dims);

/// Strides with which a tensor of @p dims is read as one of @p target (numpy broadcasting: 0 where it repeats). Empty
/// if it does not fit (and target is not empty).
std::vector<std::int64_t> broadcastStrides(const std::vector<std::int64_t> &dims,
                                           const std::vector<std::int64_t> &target);

/// A nest of loops over the elements of @p dims that K operands walk with their own strides. Loops of one turn are
/// dropped and neighbours merged where every operand allows it, so that contiguous ranges become one long inner loop.
template <std::size_t K>
class LoopNest {
public:
    using Offsets = std::array<std::int64_t, K>;

    LoopNest(const std::vector<std::int64_t> &dims, const std::array<std::vector<std::int64_t>, K> &strides)
    {
        for (std::size_t d = 0; d < dims.size(); ++d) {
            if (dims[d] == 1)
                continue;
            Offsets step;
            for (std::size_t k = 0; k < K; ++k)
                step[k] = strides[k][d];
            append(dims[d], step);
        }
        if (m_dims.empty())
            append(1, Offsets{});
        m_rows = 1;
        for (std::size_t d = 0; d + 1 < m_dims.size(); ++d)
            m_rows *= m_dims[d];
    }

    [[nodiscard]] std::int64_t rows() const { return m_rows; }
    [[nodiscard]] std::int64_t inner() const { return m_dims.back(); }
    [[nodiscard]] const Offsets &innerStrides() const { return m_strides.back(); }

    /// Calls f(offsets, first, n) in parallel for pieces [first, first + n) of rows of the innermost loop; the offsets
    /// are those of the piece's first element.
    template <class F>
    void run(F f) const
    {
        if (m_rows == 0 || inner() == 0)
            return;
        if (m_rows < 8 && inner() > kGrain) {
            splitInner(f);
            return;
        }
        parallelFor(m_rows, rowGrain(inner()), [&](std::int64_t begin, std::int64_t end) {
            std::array<std::int64_t, kMaxDepth> index{};
            Offsets offsets = start(begin, index);
            for (std::int64_t row = begin; row < end; ++row) {
                f(offsets, inner());
                for (std::size_t d = m_dims.size() - 1; d-- > 0;) {
                    for (std::size_t k = 0; k < K; ++k)
                        offsets[k] += m_strides[d][k];
                    if (++index[d] < m_dims[d])
                        break;
                    for (std::size_t k = 0; k < K; ++k)
                        offsets[k] -= m_strides[d][k] * m_dims[d];
                    index[d] = 0;
                }
            }
        });
    }

    /// Calls f(offsets) for every turn, the innermost loop's included, on the calling thread.
    template <class F>
    void runSerially(F f) const
    {
        for (std::int64_t row = 0; row < m_rows; ++row) {
            std::array<std::int64_t, kMaxDepth> index{};
            Offsets offsets = start(row, index);
            for (std::int64_t i = 0; i < inner(); ++i) {
                f(offsets);
                for (std::size_t k = 0; k < K; ++k)
                    offsets[k] += m_strides.back()[k];
            }
        }
    }

    /// The loops after merging, outermost first.
    [[nodiscard]] const std::vector<std::int64_t> &dims() const { return m_dims; }
    [[nodiscard]] const std::vector<Offsets> &strides() const { return m_strides; }

    static constexpr std::size_t kMaxDepth =
        16; ///< tensors have at most kMaxRank dimensions, and Tile needs two loops for each

private:
    void append(std::int64_t size, const Offsets &step)
    {
        if (!m_dims.empty()) {
            bool mergeable = true;
            for (std::size_t k = 0; k < K; ++k)
                mergeable = mergeable && m_strides.back()[k] == step[k] * size;
            if (mergeable) {
                m_dims.back() *= size;
                m_strides.back() = step;
                return;
            }
        }
        m_dims.push_back(size);
        m_strides.push_back(step);
    }

    Offsets start(std::int64_t row, std::array<std::int64_t, kMaxDepth> &index) const
    {
        Offsets offsets{};
        for (std::size_t d = m_dims.size() - 1; d-- > 0;) {
            index[d] = row % m_dims[d];
            row /= m_dims[d];
            for (std::size_t k = 0; k < K; ++k)
                offsets[k] += index[d] * m_strides[d][k];
        }
        return offsets;
    }

    template <class F>
    void splitInner(F f) const
    {
        for (std::int64_t row = 0; row < m_rows; ++row) {
            std::array<std::int64_t, kMaxDepth> index{};
            const Offsets base = start(row, index);
            parallelFor(inner(), kGrain, [&](std::int64_t begin, std::int64_t end) {
                Offsets offsets = base;
                for (std::size_t k = 0; k < K; ++k)
                    offsets[k] += begin * m_strides.back()[k];
                f(offsets, end - begin);
            });
        }
    }

    std::vector<std::int64_t> m_dims;
    std::vector<Offsets> m_strides;
    std::int64_t m_rows = 1;
};

/// Copies elements of 1, 2, 4 or 8 bytes between two strided views of the same dims.
class StridedCopy {
public:
    StridedCopy(std::int64_t elementBytes, const std::vector<std::int64_t> &dims,
                const std::vector<std::int64_t> &sourceStrides, const std::vector<std::int64_t> &targetStrides,
                std::int64_t sourceOffset = 0, std::int64_t targetOffset = 0);
    void run(const void *source, void *target) const;

private:
    void findTransposition();

    LoopNest<2> m_nest;
    /// A loop other than the innermost along which the source is contiguous: the two are walked in square blocks. 0:
    /// there is none.
    std::int64_t m_crossSize = 0;
    std::int64_t m_crossStride = 0; ///< in the target
    LoopNest<2> m_outer;            ///< the loops around the two
    std::int64_t m_elementBytes;
    std::int64_t m_sourceOffset;
    std::int64_t m_targetOffset;
};

} // namespace planloom::device
