// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/sharding/sbp.h"

#include <cstddef>
#include <vector>

namespace planloom::sharding {

/// Devices arranged in n dimensions, row-major. Dimension 0 is data parallel: devices that differ in it work on
/// different samples.
struct Mesh {
    std::vector<int> sizes{1};

    [[nodiscard]] int devices() const
    {
        int count = 1;
        for (const int size : sizes)
            count *= size;
        return count;
    }
    [[nodiscard]] std::vector<int> coordinates(int device) const
    {
        std::vector<int> result(sizes.size());
        for (std::size_t d = sizes.size(); d-- > 0; device /= sizes[d])
            result[d] = device % sizes[d];
        return result;
    }
    /// Devices that have @p device's coordinates in all dimensions but @p dimension, in the order of that one.
    [[nodiscard]] std::vector<int> line(int device, std::size_t dimension) const
    {
        int stride = 1;
        for (std::size_t d = dimension + 1; d < sizes.size(); ++d)
            stride *= sizes[d];
        const int first = device - device / stride % sizes[dimension] * stride;
        std::vector<int> result;
        for (int i = 0; i < sizes[dimension]; ++i)
            result.push_back(first + i * stride);
        return result;
    }
    friend bool operator==(const Mesh &, const Mesh &) = default;
};

} // namespace planloom::sharding
