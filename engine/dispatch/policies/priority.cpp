// SPDX-License-Identifier: Apache-2.0
#include "engine/dispatch/policies/policies.h"

namespace planloom::dispatch {
namespace {

/// More than any time, in nanoseconds too.
constexpr double kBehindAll = 1e18;

class ByPriority final : public LanePolicy {
public:
    [[nodiscard]] std::string_view name() const override { return "priority"; }
    [[nodiscard]] std::string_view about() const override { return "the task that the plan's exchange puts first"; }
    [[nodiscard]] double key(const program::Task &task, double since, double /*now*/) const override
    {
        return task.priority == 0 ? since : kBehindAll * static_cast<double>(task.priority);
    }
};

} // namespace

const LanePolicy &byPriority()
{
    static const ByPriority policy;
    return policy;
}

} // namespace planloom::dispatch
