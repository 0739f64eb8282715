// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/base64.h"

#include <array>
#include <cstdint>

namespace planloom::graph {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> makeValues()
{
    std::array<std::int8_t, 256> values{};
    for (auto &value : values)
        value = -1;
    for (std::size_t i = 0; i < kAlphabet.size(); ++i)
        values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::int8_t>(i);
    return values;
}

constexpr auto kValues = makeValues();

} // namespace

std::string toBase64(const std::vector<std::byte> &bytes)
{
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t group = 0;
        for (std::size_t j = 0; j < 3; ++j)
            group = group << 8U | (i + j < bytes.size() ? std::to_integer<std::uint32_t>(bytes[i + j]) : 0U);
        for (std::size_t j = 0; j < 4; ++j)
            text += i + j <= bytes.size() ? kAlphabet[group >> (18U - 6U * j) & 63U] : '=';
    }
    return text;
}

bool fromBase64(std::string_view text, std::vector<std::byte> &bytes)
{
    if (text.size() % 4 != 0)
        return false;
    std::size_t padding = 0;
    while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=')
        ++padding;
    bytes.clear();
    bytes.reserve(text.size() / 4 * 3);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const int value = i < text.size() - padding ? kValues[static_cast<unsigned char>(text[i])] : 0;
        if (value < 0)
            return false;
        group = group << 6U | static_cast<std::uint32_t>(value);
        if (i % 4 != 3)
            continue;
        for (int shift = 16; shift >= 0; shift -= 8)
            bytes.push_back(static_cast<std::byte>(group >> static_cast<unsigned>(shift) & 255U));
        group = 0;
    }
    for (; padding > 0; --padding)
        bytes.pop_back();
    return true;
}

} // namespace planloom::graph
