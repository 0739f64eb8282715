// SPDX-License-Identifier: Apache-2.0
#include "executor/device/strided.h"

#include <cstring>

namespace planloom::device {

namespace {

template <class T>
void copyElements(const LoopNest<2> &nest, const void *source, void *target, std::int64_t sourceOffset, std::int64_t targetOffset)
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

} // namespace

std::vector<std::int64_t> rowMajorStrides(const std::vector<std::int64_t> &dims)
{
    std::vector<std::int64_t> strides(dims.size(), 1);
    for (std::size_t d = dims.size(); d-- > 1;)
        strides[d - 1] = strides[d] * dims[d];
    return strides;
}

std::vector<std::int64_t> broadcastStrides(const std::vector<std::int64_t> &dims, const std::vector<std::int64_t> &target)
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

StridedCopy::StridedCopy(std::int64_t elementBytes, const std::vector<std::int64_t> &dims, const std::vector<std::int64_t> &sourceStrides,
                         const std::vector<std::int64_t> &targetStrides, std::int64_t sourceOffset, std::int64_t targetOffset)
    : m_nest(dims, {sourceStrides, targetStrides}), m_elementBytes(elementBytes), m_sourceOffset(sourceOffset), m_targetOffset(targetOffset)
{
}

void StridedCopy::run(const void *source, void *target) const
{
    switch (m_elementBytes) {
    case 1: copyElements<std::uint8_t>(m_nest, source, target, m_sourceOffset, m_targetOffset); break;
    case 2: copyElements<std::uint16_t>(m_nest, source, target, m_sourceOffset, m_targetOffset); break;
    case 4: copyElements<std::uint32_t>(m_nest, source, target, m_sourceOffset, m_targetOffset); break;
    default: copyElements<std::uint64_t>(m_nest, source, target, m_sourceOffset, m_targetOffset); break;
    }
}

} // namespace planloom::device
