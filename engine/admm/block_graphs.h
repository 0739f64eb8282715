// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/settings.h"
#include "engine/graph/graph.h"

namespace planloom::admm {

/// An iteration of the exact form, cut where workers exchange sums: Begin, SolveOut, Backward, SolveIn, Forward,
/// SolveOut, End.
enum class Part : std::uint8_t {
    Begin,    ///< forward pass if restarted, outputs; sums out
    Backward, ///< sweep from the last step to the first; sums in
    Forward,  ///< sweep from the first step to the last; sums out
    End,      ///< outputs, duals
    SolveIn,  ///< u, w and b of the sums in
    SolveOut, ///< v and c of the sums out
    Alone, ///< of an asynchronous worker, all between a version and its message: both sweeps and the outputs with the
           ///< same parameters, sums in and out, duals
};

struct Sizes {
    std::int64_t inputs = 0, hidden = 0, classes = 0, steps = 0;
};

/// The operators of a part. Its inputs are the variables that it reads, named so (steps from 1; samples are rows):
///
/// | name | shape | |
/// |---|---|---|
/// | x1, x2 … | samples, inputs | data by step |
/// | labels | samples | int64 |
/// | a1 …, h1 … | samples, hidden | variables of samples |
/// | p1 …, q1 … | samples, hidden | duals of a's and of h's residual |
/// | o, r | samples, classes | output, and its dual |
/// | u, w, b, v, c | hidden x inputs, hidden x hidden, hidden, classes x hidden, classes | parameters |
/// | gram_in, product_in, gram_out, product_out | as OuterSums gives them | sums over samples, to be added over workers
/// |
///
/// Its outputs are the variables that it changes: the same names with "'" behind. In the linearised form Begin,
/// Backward and Forward make no sums, and parameters are stepped by the two below. Error: BadInput, settings.
Result<graph::Graph> blockGraph(Part part, const Sizes &sizes, const Method &method);

/// Linearised: the sums over samples for a step on one block of parameters (u, w, b, v or c): "numerator'" in its
/// shape, "norm'" [1]. And the step that all workers make with the totals, as variables "numerator" and "norm".
Result<graph::Graph> stepGraph(const char *block, const Sizes &sizes, const Method &method);
Result<graph::Graph> takeStepGraph(const char *block, const Sizes &sizes, const Method &method);

} // namespace planloom::admm
