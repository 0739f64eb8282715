// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/units.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace planloom::graph {

enum class DType : std::uint8_t { F32, F16, BF16, F64, I64, I32, I8, U8, Bool };

/// Bytes of one element.
std::int64_t sizeOf(DType type);
/// "float32", "int64" ... and back; fromName returns false for an unknown name.
const char *name(DType type);
bool fromName(const std::string &text, DType &type);

/// One dimension: `size`, or `size` times the batch (the number of samples that pass through together). A symbolic
/// batch therefore survives reshapes such as (N, T, C) -> (N*T, C), whose first dimension is T times the batch.
struct Dim {
    std::int64_t size = 1;
    bool batch = false;

    [[nodiscard]] std::int64_t at(std::int64_t samples) const { return batch ? size * samples : size; }
    friend bool operator==(const Dim &, const Dim &) = default;
};

/// The dimensions of a tensor, outermost first, row-major. A scalar has none.
class Shape {
public:
    Shape() = default;
    explicit Shape(std::vector<Dim> dims) : m_dims(std::move(dims)) {}
    /// Fixed sizes only.
    static Shape of(std::initializer_list<std::int64_t> sizes);
    static Shape of(const std::vector<std::int64_t> &sizes);
    /// The batch (times @p perSample) first, then fixed sizes.
    static Shape batched(std::initializer_list<std::int64_t> sizes, std::int64_t perSample = 1);

    [[nodiscard]] const std::vector<Dim> &dims() const { return m_dims; }
    [[nodiscard]] std::size_t rank() const { return m_dims.size(); }
    [[nodiscard]] const Dim &operator[](std::size_t axis) const { return m_dims[axis]; }
    /// True if any dimension carries the batch.
    [[nodiscard]] bool batched() const;
    /// True if the first dimension, and no other, carries the batch: slices of samples are contiguous in memory.
    [[nodiscard]] bool batchLeading() const;
    [[nodiscard]] std::int64_t elements(std::int64_t samples) const;
    /// Concrete sizes for @p samples.
    [[nodiscard]] std::vector<std::int64_t> at(std::int64_t samples) const;
    /// "[N, 4N, 768]".
    [[nodiscard]] std::string text() const;
    friend bool operator==(const Shape &, const Shape &) = default;

private:
    std::vector<Dim> m_dims;
};

} // namespace planloom::graph
