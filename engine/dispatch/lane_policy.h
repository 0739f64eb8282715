// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/program/program.h"

#include <string_view>
#include <vector>

namespace planloom::dispatch {

/// Chooses among the tasks that wait for one lane. Stateless: the same question gets the same answer in both clocks.
class LanePolicy {
public:
    virtual ~LanePolicy() = default;
    [[nodiscard]] virtual std::string_view name() const = 0;
    [[nodiscard]] virtual std::string_view about() const = 0; ///< one line

    /// The task with the smallest key goes first; of equal ones the earliest in its stage. @p task has been ready
    /// since @p since, @p now is the time of the choice, both in the clock's unit.
    [[nodiscard]] virtual double key(const program::Task &task, double since, double now) const = 0;
};

/// All built-in policies; the first is the default.
std::vector<const LanePolicy *> allLanePolicies();
/// An empty name: the first. Error: NotFound that lists the names.
Result<const LanePolicy *> findLanePolicy(std::string_view name);

} // namespace planloom::dispatch
