// SPDX-License-Identifier: Apache-2.0
#include "engine/base/base64.h"

#include <algorithm>
#include <openssl/evp.h>

namespace planloom {
namespace {

constexpr std::size_t kPieces = std::size_t{1} << 20; ///< groups of 3 bytes at a time: OpenSSL counts in int

} // namespace

std::string toBase64(std::span<const std::byte> bytes)
{
    std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0'); // OpenSSL ends with a zero
    std::size_t made = 0;
    for (std::size_t at = 0; at < bytes.size(); at += 3 * kPieces) {
        const auto piece = bytes.subspan(at, std::min(3 * kPieces, bytes.size() - at));
        made += static_cast<std::size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char *>(text.data()) + made,
                                                         reinterpret_cast<const unsigned char *>(piece.data()),
                                                         static_cast<int>(piece.size())));
    }
    text.resize(made);
    return text;
}

Result<std::vector<std::byte>> fromBase64(std::string_view text)
{
    if (text.size() % 4 != 0)
        return badInput("is not base64: " + std::to_string(text.size()) + " characters are no multiple of 4");
    std::vector<std::byte> bytes(text.size() / 4 * 3);
    for (std::size_t at = 0; at < text.size(); at += 4 * kPieces) {
        const std::string_view piece = text.substr(at, 4 * kPieces);
        EVP_DecodeBlock(reinterpret_cast<unsigned char *>(bytes.data()) + at / 4 * 3,
                        reinterpret_cast<const unsigned char *>(piece.data()), static_cast<int>(piece.size()));
    }
    if (!text.empty())
        bytes.resize(bytes.size() - (text.back() == '=' ? 1 : 0) - (text[text.size() - 2] == '=' ? 1 : 0));
    // OpenSSL skips white space and takes padding anywhere; the round trip detects both.
    if (toBase64(bytes) != text)
        return badInput("is not base64");
    return bytes;
}

} // namespace planloom
