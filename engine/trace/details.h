// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::trace {

/// Slices that a number of another program's trace joins: callers, then what they caused, each by start. Columns by
/// record, 4 bytes each and 4 for a member; all empty where no slice has such a number.
struct Relation {
    std::vector<std::int32_t> groupOf;     ///< per record; -1: none
    std::vector<std::uint32_t> groupBegin; ///< per group, and one more: range in members
    std::vector<std::uint32_t> callersEnd; ///< per group: where those that are no callers begin
    std::vector<std::uint32_t> members;    ///< records

    [[nodiscard]] bool empty() const { return groupOf.empty(); }
    /// All members of the group of @p record, itself too; empty: it has none.
    [[nodiscard]] std::span<const std::uint32_t> of(std::size_t record) const;
    [[nodiscard]] std::span<const std::uint32_t> callers(std::size_t record) const;
    [[nodiscard]] std::span<const std::uint32_t> caused(std::size_t record) const;
    [[nodiscard]] bool isCaller(std::size_t record) const;
};

/// Columns that traces of other programs have beside their records: record i of Trace::records has row i. Nothing of it
/// is in a trace of ours.
struct Details {
    Relation launches;  ///< a call and what it started on a device: Kineto's "correlation", Nsight's correlationId
    Relation operators; ///< an operator and all that it caused: Kineto's "External id"
    std::vector<std::uint32_t> argumentOf; ///< per record: row of arguments; 0: none
    std::vector<std::string> arguments;    ///< "grid: [1,2,3]\nblock: [64,1,1]"; row 0 is empty

    [[nodiscard]] bool empty() const { return launches.empty() && operators.empty() && argumentOf.empty(); }
    /// The other end of a launch: of a call what it started first, of that its call. Nothing: there is none. O(calls of
    /// the group), which is 1.
    [[nodiscard]] std::optional<std::size_t> partner(std::size_t record) const;
    /// The operator that caused @p record; nothing: none, or it is one.
    [[nodiscard]] std::optional<std::size_t> operatorOf(std::size_t record) const;
    /// Lines "key: value"; empty: none were kept.
    [[nodiscard]] std::string_view argumentsOf(std::size_t record) const;

    /// For records that change places: the new record i is the old record order[i]. Rows of those that are not in
    /// @p order go. Cost: O(rows).
    void reorder(std::span<const std::uint32_t> order);
    /// Adds the rows of @p other behind the @p before records that this has, of which @p other's are @p count.
    void append(const Details &other, std::size_t before, std::size_t count);
};

/// Numbers of a record, while a reader makes a trace.
struct RelationRow {
    std::int64_t id = -1; ///< below 1: none
    bool isCaller = false;
};
/// Groups rows by their ids; a group of one member is none. @p startOf: of a record, for the order. Cost: O(n log n).
Relation relate(std::span<const RelationRow> rows, const std::function<std::int64_t(std::size_t)> &startOf);

} // namespace planloom::trace
