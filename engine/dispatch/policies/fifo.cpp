// SPDX-License-Identifier: Apache-2.0
#include "engine/dispatch/policies/policies.h"

namespace planloom::dispatch {
namespace {

class FirstInFirstOut final : public LanePolicy {
public:
    [[nodiscard]] std::string_view name() const override { return "fifo"; }
    [[nodiscard]] std::string_view about() const override { return "first in, first out"; }
    [[nodiscard]] double key(const program::Task & /*task*/, double since, double /*now*/) const override
    {
        return since;
    }
};

} // namespace

const LanePolicy &firstInFirstOut()
{
    static const FirstInFirstOut policy;
    return policy;
}

} // namespace planloom::dispatch
