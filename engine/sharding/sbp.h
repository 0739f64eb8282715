// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace planloom::sharding {

/// Split along an axis, Broadcast (each device has all), Partial (the sum over devices is the value): OneFlow §3.1.
struct Sbp {
    enum class Kind : std::uint8_t { Split, Broadcast, Partial };
    Kind kind = Kind::Broadcast;
    int axis = 0; ///< Split only
    friend bool operator==(const Sbp &, const Sbp &) = default;
};

/// One Sbp per dimension of the device mesh.
using NdSbp = std::vector<Sbp>;

/// "S(0),B,P" and back. Error: BadInput that shows the accepted forms.
std::string toText(const NdSbp &sbp);
Result<NdSbp> fromText(const std::string &text);

} // namespace planloom::sharding
