// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::graph {

/// RFC 4648 base64 with padding.
std::string toBase64(const std::vector<std::byte> &bytes);
/// False if @p text is not base64 (alphabet, length, padding); @p bytes is then unspecified.
bool fromBase64(std::string_view text, std::vector<std::byte> &bytes);

} // namespace planloom::graph
