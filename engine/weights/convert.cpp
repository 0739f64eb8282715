// SPDX-License-Identifier: Apache-2.0
#include "engine/weights/convert.h"

#include <bit>
#include <cstring>

namespace planloom::weights {

using graph::DType;

float fromHalf(std::uint16_t half)
{
    const std::uint32_t sign = std::uint32_t{half & 0x8000U} << 16;
    const std::uint32_t exponent = half >> 10 & 0x1fU;
    const std::uint32_t fraction = half & 0x3ffU;
    if (exponent == 0) // zero or subnormal: a multiple of 2^-24
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24F) | sign);
    const std::uint32_t wide = exponent == 0x1f ? 0xffU : exponent + (127 - 15);
    return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

std::uint16_t toHalf(float value)
{
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U)
        return static_cast<std::uint16_t>(sign | 0x7e00U); // NaN
    if (magnitude >= 0x477ff000U)
        return static_cast<std::uint16_t>(sign | 0x7c00U); // 65520 and more round to infinity
    if (magnitude < 0x38800000U) { // below the smallest normal half: adding 1/2 leaves multiples of 2^-24 in the low
                                   // bits, rounded
        const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
        return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
    }
    const std::uint32_t rounded = magnitude + 0xfffU + (magnitude >> 13 & 1U);
    return static_cast<std::uint16_t>(sign | ((rounded - (112U << 23)) >> 13));
}

namespace {

template <class From, class To, class Rule>
void each(std::span<const std::byte> from, std::byte *out, Rule rule)
{
    const std::size_t count = from.size() / sizeof(From);
    for (std::size_t i = 0; i < count; ++i) {
        From value;
        std::memcpy(&value, from.data() + i * sizeof(From), sizeof value);
        const To made = rule(value);
        std::memcpy(out + i * sizeof(To), &made, sizeof made);
    }
}

} // namespace

bool convertible(DType from, DType to)
{
    if (from == to)
        return true;
    if (to == DType::F32)
        return from == DType::F16 || from == DType::BF16 || from == DType::F64;
    return from == DType::F32 && to == DType::BF16;
}

void convert(std::span<const std::byte> from, DType fromType, DType to, std::byte *out)
{
    if (fromType == to) {
        if (!from.empty())
            std::memcpy(out, from.data(), from.size());
        return;
    }
    switch (fromType) {
    case DType::F16: return each<std::uint16_t, float>(from, out, fromHalf);
    case DType::BF16: return each<std::uint16_t, float>(from, out, fromBFloat16);
    case DType::F64: return each<double, float>(from, out, [](double value) { return static_cast<float>(value); });
    default: return each<float, std::uint16_t>(from, out, toBFloat16);
    }
}

} // namespace planloom::weights
