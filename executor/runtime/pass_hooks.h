// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/runtime/call_list.h"

namespace planloom::runtime {

/// Called while a pass is given to the device, so that communication moves on meanwhile.
class PassHooks {
public:
    virtual ~PassHooks() = default;
    virtual void betweenOperators() = 0;
    /// True: betweenOperators() has to be called after each operator, so that no graph of many is given at once.
    [[nodiscard]] virtual bool seesEachOperator() const { return false; }
    /// Executes communicating operator @p op of the stage and waits for it. False: it failed. Only of passes
    /// that infer, when the device has ended all operators before.
    virtual bool communicate(std::int32_t /*op*/, const Communication & /*what*/) { return false; }
    /// An operator of a pass that infers compares @p rows with labels; they are there when the queue gets here.
    virtual void scored(const device::ScoredRows & /*rows*/) {}
};

} // namespace planloom::runtime
