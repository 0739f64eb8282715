// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace planloom {

/// RFC 4648 base64 with padding, in one line.
std::string toBase64(std::span<const std::byte> bytes);
/// The bytes that toBase64 writes as @p text. Error: BadInput for all that it does not write: other characters, line
/// breaks, a length that is no multiple of 4, misplaced padding, unused bits that are set.
Result<std::vector<std::byte>> fromBase64(std::string_view text);

} // namespace planloom
