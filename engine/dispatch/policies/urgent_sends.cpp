// SPDX-License-Identifier: Apache-2.0
#include "engine/dispatch/policies/policies.h"

namespace planloom::dispatch {
namespace {

/// A stage behind that has no activations has nothing to do; a late gradient delays only later work in
/// the order anyway. So activations count their waiting time twice.
class UrgentSends final : public LanePolicy {
public:
    [[nodiscard]] std::string_view name() const override { return "urgent-sends"; }
    [[nodiscard]] std::string_view about() const override
    {
        return "activations to the next stage count their waiting time twice";
    }
    [[nodiscard]] double key(const program::Task &task, double since, double now) const override
    {
        const auto *transfer = task.as<program::Transfer>();
        const bool urgent = transfer != nullptr && transfer->pass == program::Pass::Forward;
        constexpr double kUrgency = 2;
        return (urgent ? kUrgency : 1) * (since - now);
    }
};

} // namespace

const LanePolicy &urgentSends()
{
    static const UrgentSends policy;
    return policy;
}

} // namespace planloom::dispatch
