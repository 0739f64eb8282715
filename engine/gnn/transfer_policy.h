// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::gnn {

/// How the connections of a network card share it.
enum class TransferPolicy : std::uint8_t {
    Static,         ///< equal shares for all connections, active or not
    Degree,         ///< equal shares for the active ones: min(out / active out, in / active in)
    MaxMin,         ///< progressive filling: what one connection cannot use goes to the others
    IterationFirst, ///< strict priority: the oldest iteration, then the lowest connection
};
inline constexpr TransferPolicy kTransferPolicies[] = {TransferPolicy::Static, TransferPolicy::Degree,
                                                       TransferPolicy::MaxMin, TransferPolicy::IterationFirst};
const char *name(TransferPolicy policy); ///< "static", "degree", "max-min", "iteration-first"
/// Error: NotFound that lists the names.
Result<TransferPolicy> transferPolicyFromName(std::string_view text);

} // namespace planloom::gnn
