// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace planloom::import {

/// An ONNX operator whose results are those of ONNX's own backend tests, in every operator set from 9 on that these
/// know.
struct ClaimedOperator {
    const char *type;
    std::uint32_t constants = 0; ///< bit i: input i must be known while the file is read; it becomes an attribute
    const char *notes = "";      ///< limits, or the method
};

/// By name.
std::span<const ClaimedOperator> claimedOperators();
/// nullptr: not claimed.
const ClaimedOperator *findClaim(std::string_view type);

inline bool wantsConstant(const ClaimedOperator &claim, std::size_t input)
{
    return input < 32 && (claim.constants >> input & 1U) != 0;
}

} // namespace planloom::import
