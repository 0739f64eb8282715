// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/settings.h"
#include "engine/graph/graph.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace planloom::admm {

/// An iteration of the exact form, cut where workers exchange sums: Begin, SolveOut, Backward, SolveIn, Forward,
/// SolveOut, End.
enum class Part : std::uint8_t {
    Begin,        ///< forward pass if restarted, outputs; sums out. Of ranges of steps: and `pull`
    Backward,     ///< sweep from the last step to the first; sums in
    Forward,      ///< sweep from the first step to the last; sums out; duals of what it was the last to update, and the
                  ///< squared residuals of steps without duals
    End,          ///< outputs, the other duals and squared residuals
    SolveIn,      ///< u, w and b of the sums in
    SolveOut,     ///< v and c of the sums out
    LastHidden,   ///< of ranges of steps: the range's last hidden state
    RestBackward, ///< the others of it, all inputs; sums in
    FirstInput,   ///< the input of the range's first step; `pull`
    RestForward,  ///< the other inputs, all hidden states; sums out
    Alone, ///< of an asynchronous worker, all between a version and its message: both sweeps and the outputs with the
           ///< same parameters, sums in and out, duals
};

/// Of the recurrent model: features of a step, hidden units, classes, time steps.
struct Sizes {
    std::int64_t inputs = 0, hidden = 0, classes = 0, steps = 0;
};

/// The parameters of the model, in the order in which a server's answer has them.
inline constexpr std::array kParameterNames{"u", "w", "b", "v", "c"};
/// The shape of a variable that belongs to no sample: a parameter, or sums; of another one nothing.
std::optional<graph::Shape> sharedShape(const Sizes &sizes, const std::string &name);
/// Its elements. @p name is a parameter or sums.
std::int64_t sharedElements(const Sizes &sizes, const std::string &name);

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
/// | risk | 1 | the cross-entropy of the last outputs, summed over samples; made only |
/// | square_a1 …, square_h1 … | 1 | squared norm of a residual without dual (Duals::Last); made only |
/// | gram_in, product_in, gram_out, product_out | as OuterSums gives them | sums over samples, to be added over workers
/// |
///
/// Its outputs are the variables that it changes: the same names with "'" behind. In the linearised form Begin,
/// Backward and Forward make no sums, and parameters are stepped by the two below.
///
/// With Settings::timeRanges, on a mesh whose dimension 1 they are: Begin without forward pass, SolveOut, LastHidden,
/// RestBackward, SolveIn, FirstInput, RestForward, SolveOut, End, for the steps of a range, numbered from 1 in each.
/// `pull` is what the first step's input asks of the hidden state before; `ahead` is that of the range behind, and
/// `before` the last hidden state of the range before, which has to come from there. Sums are the range's part of those
/// over all. Outputs are the last range's: the others have numbers there that count for nothing.
///
/// @p passed: of Begin and Alone with Settings::restart, the forward pass has been made, and a and h are its own. With
/// Settings::restart, Backward, LastHidden, RestBackward and Alone take h for the tanh of a where neither has changed:
/// what stands before them in an iteration must have left both as the forward pass made them.
/// Error: BadInput, settings.
Result<graph::Graph> blockGraph(Part part, const Sizes &sizes, const Method &method, bool passed = false);

/// Linearised: the sums over samples for a step on one block of parameters (u, w, b, v or c): "numerator'" in its
/// shape, "norm'" [1]. And the step that all workers make with the totals, as variables "numerator" and "norm".
Result<graph::Graph> stepGraph(const char *block, const Sizes &sizes, const Method &method);
Result<graph::Graph> takeStepGraph(const char *block, const Sizes &sizes, const Method &method);

/// Writes numbers of which each range of steps takes its own, [1].
TensorId byRange(graph::GraphBuilder &builder, const std::vector<double> &values, const std::string &name);
/// By range, the power of the ratio of its penalties to those of the last range, which is the same for all steps.
std::vector<double> rangeScales(const Method &method, int power);
std::vector<double> ofLastRange(const Method &method, double there, double elsewhere);

} // namespace planloom::admm
