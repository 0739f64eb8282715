// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/graph.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace planloom::import {

/// A number that may be a multiple of the batch: sizes computed from a symbolic shape.
struct Number {
    double value = 0;
    bool batch = false;
    [[nodiscard]] std::int64_t integer() const; ///< towards zero, clamped to int64; the factor of a batch multiple
    friend bool operator==(const Number &, const Number &) = default;
};

/// A tensor whose elements are known while a file is read: constants, shapes, and values that exporters compute from
/// them.
struct KnownValue {
    graph::DType type = graph::DType::I64;
    std::vector<std::int64_t> dims;
    std::vector<Number> elements; ///< row-major

    static KnownValue scalar(graph::DType type, double value) { return {type, {}, {{value, false}}}; }
    static KnownValue ints(const std::vector<std::int64_t> &values);
    static KnownValue shapeOf(const graph::Shape &shape);

    [[nodiscard]] bool symbolic() const; ///< true if any element depends on the batch
    /// The elements as integers, clamped to int64; a batch multiple gives its factor.
    [[nodiscard]] std::vector<std::int64_t> integers() const;
    /// The elements as the bytes of a tensor of `type`. Only for values that are not symbolic.
    [[nodiscard]] std::vector<std::byte> bytes() const;
};

/// More elements than this are left to be computed at run time.
inline constexpr std::int64_t kMostFoldedElements = std::int64_t{1} << 24;

/// Evaluates @p op on known inputs (nullptr: left out; all others must be known). Returns nothing if the type cannot be
/// folded, the result would be too large, or an element would be neither a number nor a multiple of the batch.
std::optional<KnownValue> fold(const graph::Op &op, const std::vector<const KnownValue *> &inputs);

/// The value of Shape{start, end} or Size for a tensor of @p shape. Nothing if the batch would be in it squared.
std::optional<KnownValue> foldShape(const graph::Op &op, const graph::Shape &shape);

} // namespace planloom::import
