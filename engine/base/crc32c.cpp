// SPDX-License-Identifier: Apache-2.0
#include "engine/base/crc32c.h"

#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace planloom {
namespace {

constexpr std::array<std::uint32_t, 256> makeTable()
{
    constexpr std::uint32_t kReversedPolynomial = 0x82f63b78U;
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit)
            value = value >> 1 ^ ((value & 1) != 0 ? kReversedPolynomial : 0);
        table[i] = value;
    }
    return table;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t byInstruction(std::span<const std::byte> bytes, std::uint32_t before)
{
    std::uint64_t sum = ~before;
    const std::byte *at = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 8; left -= 8, at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, 8);
        sum = _mm_crc32_u64(sum, word);
    }
    auto tail = static_cast<std::uint32_t>(sum);
    for (; left > 0; --left, ++at)
        tail = _mm_crc32_u8(tail, static_cast<std::uint8_t>(*at));
    return ~tail;
}
#endif

} // namespace

std::uint32_t detail::crc32cByTable(std::span<const std::byte> bytes, std::uint32_t before)
{
    static constexpr auto kTable = makeTable();
    std::uint32_t sum = ~before;
    for (const std::byte byte : bytes)
        sum = sum >> 8 ^ kTable[(sum ^ static_cast<std::uint8_t>(byte)) & 0xff];
    return ~sum;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before)
{
#if defined(__x86_64__)
    static const bool instruction = __builtin_cpu_supports("sse4.2") != 0;
    if (instruction)
        return byInstruction(bytes, before);
#endif
    return detail::crc32cByTable(bytes, before);
}

} // namespace planloom
