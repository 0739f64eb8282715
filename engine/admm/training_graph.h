// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/settings.h"
#include "engine/graph/gradients/differentiate.h"

#include <functional>
#include <string>
#include <vector>

namespace planloom::admm {

/// Numbers that an iteration leaves behind, float32: the squared norms of the residuals of all constraints, with duals
/// or penalised alone (residualNames()), over all workers, or with ranges of steps the sum of these; then
/// IterationFigures.
inline constexpr const char *kFigures = "admm/figures";

/// The last ones of kFigures.
struct IterationFigures {
    static constexpr std::size_t kCount = 4;
    /// The augmented Lagrangian before the duals' step, without the ridge's part, summed over workers.
    float lagrangian = 0;
    float change = 0;        ///< of the parameters, squared norm
    float weightsBefore = 0; ///< squared norm of those that the ridge counts
    float weightsBehind = 0;
};

/// An iteration on a worker's samples as one graph. Forward: the model with its loss, the recurrent layer step by step
/// where its final state alone is read, so that this is the restart as well. In the place of the backward pass: the
/// parts of blockGraph() with an all-reduce over mesh dimension 0 between them, three of sums and one of the numbers
/// for kFigures. `gradients` are the new parameters, which update rule update::replacement() takes. Duals are tensors
/// of role State with a row a sample, "admm/p1" and so on, zeros at first. With shards of samples a row has the columns
/// of each shard, and two further states have each shard's last sums. One worker has no all-reduce. With ranges of
/// steps, dimension 1 of the mesh, each device makes the forward pass of all, and what neighbours need of each other
/// travels by NeighbourShift, twice an iteration each way. Asynchronous: in the place of all exchanges one ServerRound,
/// whose message and answer MessageLayout describes; figures are the worker's own. Errors: those of findPattern(),
/// blockGraph() and checkWorkers(); Unsupported, a layer without bias, and variables that are kept between iterations.
Result<graph::TrainingGraph> trainingGraph(const graph::Graph &model, const Settings &settings, std::int64_t workers);

/// Of the constraints whose residuals an iteration gives: "a1" and "h1" of the first step's input and state ..., "o" of
/// the outputs. Empty: it gives the sum of them.
std::vector<std::string> residualNames(const graph::Graph &model, const Settings &settings);

/// The name in the run of a dual of the graph on the device at a coordinate of mesh dimension 1; empty: another one has
/// it. Null where steps are not divided into ranges.
using StateNames = std::function<std::string(const std::string &, int)>;
StateNames stateNames(const graph::Graph &model, const Settings &settings);

/// That ranges of steps are equal. @p most: for which a worker has devices; the error proposes no more. Error:
/// BadInput.
Status checkRanges(const Settings &settings, std::int64_t steps, std::int64_t most);

/// That so many workers can train asynchronously, if the settings say so. Errors: BadInput, Unsupported.
Status checkWorkers(const Settings &settings, std::int64_t workers);

} // namespace planloom::admm
