// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "engine/overlay/kinds.h"
#include "engine/trace/trace.h"

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::overlay {

/// The part of a step that a call belongs to. Unknown: a kernel without operator, whose name does not tell.
enum class Phase : std::uint8_t { Forward, Backward, Recompute, Optimizer, Unknown };

/// An operator that a program called, outermost, or a kernel without one.
struct Call {
    std::string_view name; ///< of the trace's table of tasks
    KindSet kinds = 0;
    Phase phase = Phase::Unknown;
    std::int32_t step = 0;
    std::int32_t scope = -1; ///< the innermost range around it that the model has a scope or an operator of; -1: none
    std::size_t record = 0;  ///< of the trace
    std::int64_t issued = 0; ///< when it was called, nanoseconds: the order
    std::int64_t begin = 0;  ///< of its kernels, where its process has any; else of itself
    std::int64_t end = 0;
    std::int64_t busy = 0;    ///< the sum of its kernels' durations, or its own
    std::int32_t kernels = 0; ///< of a GPU
};

/// A transfer or collective that a process took part in.
struct Exchange {
    std::string_view name;
    trace::Kind kind = trace::Kind::Other;
    std::int32_t step = 0;
    std::int64_t issued = 0; ///< when it was launched; its begin where the trace does not tell
    std::int64_t begin = 0, end = 0;
};

/// Indexes of what belongs to a step, by step.
struct IndexesOfSteps {
    std::map<std::int32_t, std::vector<std::size_t>> all;
    [[nodiscard]] std::span<const std::size_t> in(std::int32_t step) const
    {
        const auto found = all.find(step);
        return found == all.end() ? std::span<const std::size_t>() : std::span<const std::size_t>(found->second);
    }
};

/// A process that trains, with the GPU that it uses.
struct Process {
    std::string name;
    std::int32_t rank = -1;          ///< of the trace, with its operators
    bool hasKernels = false;         ///< times are those of a GPU's kernels
    bool hasOperators = false;       ///< false: kernels alone
    std::vector<Call> calls;         ///< by `issued`
    std::vector<Exchange> exchanges; ///< by `begin`
    IndexesOfSteps callsOfStep;      ///< of `calls`, in order
    IndexesOfSteps exchangesOfStep;  ///< of `exchanges`, in order
};

/// What a trace says of operators.
struct Calls {
    std::vector<Process> processes;  ///< with calls, in the order of the trace's ranks
    std::vector<std::string> scopes; ///< that Call::scope names, as the caller's function gave them
    bool stepsByOptimizer = false;   ///< the trace has no marks of steps, but several of the optimizer's
};

/// Reads operators (outermost ones), autograd's nodes, the optimizer's steps and kernels. @p scopeOf: the scope or
/// operator of the model that a range is called like; empty: none. Where @p progress is stopped, what was read so far.
/// Cost: O(n log n).
Calls callsOf(const trace::Trace &trace, const std::function<std::string(std::string_view)> &scopeOf,
              const Progress &progress);

} // namespace planloom::overlay
