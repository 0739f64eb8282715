// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/sharding/mesh.h"
#include "engine/sharding/sbp.h"

#include <cstdint>
#include <vector>

// What it takes to change how a tensor lies on devices: the boxing table of OneFlow (Yuan et al., 2021, §3.2), and routes over n dimensions.
namespace planloom::sharding {

/// Bytes that all devices of a line together send to turn @p from into @p to, for a tensor of @p bytes on @p parts devices. Ring traffic
/// of one device is this divided by @p parts. Splits of one axis with different segments go through B.
double boxingBytes(const Sbp &from, const Sbp &to, double bytes, int parts);
/// The same from @p fromParts devices to @p toParts others.
double boxingBytesBetween(const Sbp &from, const Sbp &to, double bytes, int fromParts, int toParts);

/// One component of an n-d sharding changes: what the devices of each line of the mesh do together.
struct BoxingStep {
    enum class Kind : std::uint8_t { Slice, Pad, KeepOnFirst, AllGather, AllReduce, ReduceScatter, AllToAll };
    Kind kind = Kind::Slice;
    std::size_t dimension = 0; ///< of the mesh
    NdSbp result;
    double bytes = 0;          ///< moved by all devices together
};

/// The steps that turn @p from into @p to with the fewest bytes (then the fewest steps), for a tensor of these sizes; none if they are equal. A component
/// that splits an axis can change only while no dimension further in splits the same axis, as the parts would not lie together: then the
/// route goes through other layouts. Dijkstra's algorithm over the layouts that can be made of the components of both.
/// Error: BadInput if a split does not divide or names an axis that is not there.
Result<std::vector<BoxingStep>> boxingRoute(const std::vector<std::int64_t> &sizes, std::int64_t elementBytes, const Mesh &mesh, const NdSbp &from, const NdSbp &to);

} // namespace planloom::sharding
