// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/graph/shape.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace planloom::weights {

/// IEEE half precision to single: exact. The other way rounds to nearest, ties to even.
float fromHalf(std::uint16_t half);
std::uint16_t toHalf(float value);
/// bfloat16 to single: exact. The other way rounds to nearest, ties to even, and keeps a NaN one. Here, and without a
/// jump, so that loops over them are vectorised.
constexpr float fromBFloat16(std::uint16_t value) { return std::bit_cast<float>(std::uint32_t{value} << 16); }
constexpr std::uint16_t toBFloat16(float value)
{
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
    const std::uint32_t quiet = bits >> 16 | 0x40U; // of a NaN, which rounding could carry into infinity
    return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}

/// True for the pairs that convert() knows: equal types, and F32, F16, BF16 or F64 to F32, and F32 to BF16.
bool convertible(graph::DType from, graph::DType to);
/// @p from (any alignment) as elements of @p to at @p out. The pair is convertible; @p from holds whole elements.
void convert(std::span<const std::byte> from, graph::DType fromType, graph::DType to, std::byte *out);

} // namespace planloom::weights
