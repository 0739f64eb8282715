// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/progress.h"
#include "engine/plan/plan.h"

#include <vector>

namespace planloom::simulate {

/// When an iteration of ADMM updates what, on the first rank of a plan and by the cost clock.
struct Sweeps {
    enum class Block : std::uint8_t { Output, Hidden, Input, Parameters }; ///< o, h, a, and u, w, b or v, c
    struct Update {
        Block block = Block::Output;
        int step = 0;          ///< in time, from 1; of Parameters 0
        bool backward = false; ///< in the first sweep
        double begin = 0;      ///< seconds, with what prepares it
        double end = 0;
    };
    struct Span {
        double begin = 0;
        double end = 0;
    };
    int steps = 0; ///< in time
    double seconds = 0;
    std::vector<Update> updates; ///< in order
    std::vector<Span> exchanges; ///< of sums, or with the parameter server
};

/// Errors: BadInput (the plan does not train by ADMM), Unsupported (not by exact sub-problems, or with ranges of
/// steps), those of compilation and simulation, Cancelled (between these). Cost: that of compiling the plan with its
/// bodies. Of more than 16 workers so many are compiled.
Result<Sweeps> sweepsOf(const plan::Plan &plan, const plan::Subject &subject, const Progress &progress);

} // namespace planloom::simulate
