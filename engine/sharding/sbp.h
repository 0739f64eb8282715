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
    /// Split only: the axis is a row of segments of these sizes and each is split by itself, so that a packed Q|K|V
    /// keeps whole heads together. Empty: one segment.
    std::vector<std::int64_t> segments;
    friend bool operator==(const Sbp &, const Sbp &) = default;
};

/// One Sbp per dimension of the device mesh.
using NdSbp = std::vector<Sbp>;

/// "S(0),B,P" and back; with segments "S(2:64+32+32)". Error: BadInput that shows the accepted forms.
std::string toText(const NdSbp &sbp);
Result<NdSbp> fromText(const std::string &text);

} // namespace planloom::sharding
