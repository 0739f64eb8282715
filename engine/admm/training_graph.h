// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/admm/settings.h"
#include "engine/graph/gradients/differentiate.h"

namespace planloom::admm {

/// Scalars that an iteration leaves behind, float32 [3]: the squared norm of the residuals of all constraints that have
/// duals, over all workers; that of the parameters' change; that of the weights that the ridge counts, before it.
inline constexpr const char *kFigures = "admm/figures";

/// An iteration on a worker's samples as one graph. Forward: the model with its loss, the recurrent layer step by step
/// where its final state alone is read, so that this is the restart as well. In the place of the backward pass: the
/// parts of blockGraph() with an all-reduce over mesh dimension 0 between them, three of sums and one of a number for
/// kFigures. `gradients` are the new parameters, which update rule update::replacement() takes. Duals are tensors of
/// role State with a row a sample, "admm/p1" and so on, zeros at first. One worker has no all-reduce. Asynchronous: in
/// the place of all exchanges one ServerRound, whose message and answer MessageLayout describes; figures are the
/// worker's own. Errors: those of findPattern(), blockGraph() and checkWorkers(); Unsupported, a layer without bias,
/// and variables that are kept between iterations.
Result<graph::TrainingGraph> trainingGraph(const graph::Graph &model, const Settings &settings, std::int64_t workers);

/// That so many workers can train asynchronously, if the settings say so. Errors: BadInput, Unsupported.
Status checkWorkers(const Settings &settings, std::int64_t workers);

} // namespace planloom::admm
