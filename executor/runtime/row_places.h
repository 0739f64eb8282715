// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace planloom::runtime {

/// Where the rows of ids lie in the windows of tables that are exchanged by rows (program::Table). Thread contract: one
/// thread.
class RowPlaces {
public:
    virtual ~RowPlaces() = default;
    /// The table whose places an input of a body is, or -1.
    [[nodiscard]] virtual std::int32_t tableOf(std::string_view input) const = 0;
    /// The input of the model whose ids look it up.
    [[nodiscard]] virtual const std::string &idsOf(std::int32_t table) const = 0;
    /// From here on the windows have the rows of @p step.
    virtual void enter(std::int64_t step) = 0;
    /// Replaces each id by the place of its row; by one behind the window where the table has no such row.
    virtual void toPlaces(std::int32_t table, std::int64_t *ids, std::int64_t count) const = 0;
};

} // namespace planloom::runtime
