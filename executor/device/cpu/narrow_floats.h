// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/weights/convert.h"

#include <cstdint>
#include <type_traits>

// Two-byte floats as element types: every computation on them is made in float32 or double and rounded once at the end.
namespace planloom::device {

/// A float16 number that computes as float.
struct Half {
    std::uint16_t bits = 0;
    Half() = default;
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    explicit Half(T value) : bits(weights::toHalf(static_cast<float>(value)))
    {
    }
    operator float() const { return weights::fromHalf(bits); } // NOLINT: reads as a number
};

/// A bfloat16 number that computes as float.
struct BFloat16 {
    std::uint16_t bits = 0;
    BFloat16() = default;
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    explicit BFloat16(T value) : bits(weights::toBFloat16(static_cast<float>(value)))
    {
    }
    operator float() const { return weights::fromBFloat16(bits); } // NOLINT: reads as a number
};

template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// The type in which elements of type T are computed: double, or int64.
template <class T>
using Wide = std::conditional_t<kIsFloat<T>, double, std::int64_t>;

template <class T>
Wide<T> widen(T value)
{
    if constexpr (std::is_floating_point_v<T> || std::is_integral_v<T>)
        return static_cast<Wide<T>>(value);
    else
        return static_cast<Wide<T>>(static_cast<float>(value));
}

} // namespace planloom::device
