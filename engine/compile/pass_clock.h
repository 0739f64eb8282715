// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"
#include "engine/plan/plan.h"

#include <memory>

namespace planloom::compile {

class StageCache;

/// Times of passes over the stages of a plan, for slices of any size: the durations that compile() gives their tasks,
/// without making tasks. For searches that ask for many sizes. Not thread-safe.
class PassClock {
public:
    /// Errors: those of compile(). @p stages, which must outlive it, may be null. The cost is about that of compile()
    /// for one micro-batch.
    static Result<PassClock> make(plan::Plan plan, const plan::Subject &subject, StageCache *stages);
    PassClock(PassClock &&) noexcept;
    PassClock &operator=(PassClock &&) noexcept;
    ~PassClock();

    /// One pass on the first device of a stage.
    struct Pass {
        Seconds whole;     ///< with the collectives among the devices that share tensors
        Seconds computing; ///< without
    };
    struct Passes {
        Pass forward;
        Pass backward; ///< without what is computed again before it
    };
    /// Of a slice of @p samples. Cost: O(operators of the stage) for a size that is new to it or to one that is alike.
    Passes of(std::size_t stage, double samples);

private:
    class Impl;
    explicit PassClock(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> m_impl;
};

} // namespace planloom::compile
