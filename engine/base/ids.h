// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <compare> // after <cstdint>: Qt's moc cannot read it first
#include <functional>

namespace planloom {

/// A position in one of the house's tables, typed so that an operator's is not taken for a device's. 4 bytes; -1 is
/// "none".
template <class Tag>
struct Id {
    std::int32_t value = -1;

    constexpr Id() = default;
    constexpr explicit Id(std::int64_t v) : value(static_cast<std::int32_t>(v)) {}
    [[nodiscard]] constexpr bool valid() const { return value >= 0; }
    [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
    friend constexpr auto operator<=>(Id, Id) = default;
};

using OpId = Id<struct OpTag>;         ///< an operator of a Graph
using TensorId = Id<struct TensorTag>; ///< a tensor of a Graph
using DeviceId = Id<struct DeviceTag>; ///< a device of a Cluster
using NodeId = Id<struct NodeTag>;     ///< a node (machine) of a Cluster
using StageId = Id<struct StageTag>;   ///< a pipeline stage of a Plan
using RankId = Id<struct RankTag>;     ///< a position in a Program's rank table; one rank runs on one device
using TaskId = Id<struct TaskTag>;     ///< a task of a Program
using BodyId = Id<struct BodyTag>;     ///< the operators of one rank for one stage of a Program
using GroupId = Id<struct GroupTag>;   ///< tasks of a Program that start together on several ranks
using TeamId = Id<struct TeamTag>;     ///< ranks of a Program that communicate together
using BucketId = Id<struct BucketTag>; ///< parameters of a Program whose gradients are exchanged together
using TableId = Id<struct TableTag>;   ///< a parameter of a Program that is exchanged by rows

} // namespace planloom

/// Ids as keys of unordered containers.
template <class Tag>
struct std::hash<planloom::Id<Tag>> {
    std::size_t operator()(planloom::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id.value); }
};
